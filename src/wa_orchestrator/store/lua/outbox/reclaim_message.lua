-- uses: _message
-- reclaim_message: return a message whose lease expired to the front, or give it up if too many workers have died with it.
-- Atomic because the holder may renew or ack at the same moment.
-- KEYS: the message layout, then KEYS[17] stats hash of the session's day  KEYS[18] of all sessions' day  KEYS[19] unconfirmed zset
-- ARGV[4] crashes after which it fails, or empty if its worker did not crash
-- returns {'became', status} | {'alive', until ms} | {'unknown'}
local STATS, TOTALS, UNCONFIRMED, most_crashes = KEYS[17], KEYS[18], KEYS[19], tonumber(ARGV[4])
local now = now_ms()
local ends = redis.call('ZSCORE', LEASES, ID)
if not ends then return { 'unknown' } end -- guard: leased
if tonumber(ends) > now then return { 'alive', tonumber(ends) } end -- guard: lease_over
if redis.call('HGET', MESSAGE, 'status') == 'scheduled' then
  undo_release()
  wake_phone(now)
  redis.call('ZADD', QUEUE, FRONT, ID)
  set_status('queued', now, 'NOBODY_CLAIMED')
  -- Counted on the session: a connected worker that claims nothing, time after time, does not work although it pings.
  if redis.call('HGET', SESSION, 'status') == 'connected' then redis.call('HINCRBY', SESSION, 'unclaimed', 1) end -- guard: unclaimed
  return { 'became', 'queued' }
end
return { 'became', take_back(STATS, TOTALS, UNCONFIRMED, now, 'LEASE_EXPIRED', most_crashes) }
