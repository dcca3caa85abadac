-- uses: _message
-- reclaim_message: a lease expired. The message returns to the front; if it had been claimed, WhatsApp may have it already, so the pause starts again now.
-- Atomic because the holder may renew or ack at the same moment.
-- KEYS: the message layout, then KEYS[17] stats hash of the day  KEYS[18] unconfirmed zset
-- ARGV[4] crashes after which it fails
-- returns {'became', status} | {'alive', until ms} | {'unknown'}
local STATS, UNCONFIRMED, most_crashes = KEYS[17], KEYS[18], tonumber(ARGV[4])
local now = now_ms()
local ends = redis.call('ZSCORE', LEASES, ID)
if not ends then return { 'unknown' } end -- guard: leased
if tonumber(ends) > now then return { 'alive', tonumber(ends) } end -- guard: lease_over
local status, pause_ms = unpack(redis.call('HMGET', MESSAGE, 'status', 'pause_ms'))
wake_phone(now)
if status == 'scheduled' then
  undo_release()
  redis.call('ZADD', QUEUE, FRONT, ID)
  set_status('queued', now, 'NOBODY_CLAIMED')
  -- Counted on the session: a connected worker that claims nothing, time after time, does not work although it pings.
  if redis.call('HGET', SESSION, 'status') == 'connected' then redis.call('HINCRBY', SESSION, 'unclaimed', 1) end -- guard: unclaimed
  return { 'became', 'queued' }
end
end_flight(now, tonumber(pause_ms or 0)) -- rearm: reclaim
redis.call('HSET', MESSAGE, 'in_doubt', '1')
if redis.call('HINCRBY', MESSAGE, 'crashes', 1) >= most_crashes then
  return { 'became', fail_message(STATS, UNCONFIRMED, now, 'WORKER_CRASHED') }
end
redis.call('ZADD', QUEUE, FRONT, ID)
set_status('queued', now, 'LEASE_EXPIRED')
return { 'became', 'queued' }
