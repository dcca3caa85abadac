-- uses: _message
-- reclaim_message: a lease ran out. The message goes back to the front; if it had been claimed, WhatsApp may have it already, so the pause starts again now.
-- Atomic because the holder may renew or ack at this very moment.
-- KEYS: the message layout, then KEYS[16] stats hash of the day  ARGV[4] crashes after which it is given up
-- returns {'queued'} | {'failed'} | {'alive', until ms} | {'gone'}
local now = now_ms()
local ends = redis.call('ZSCORE', LEASES, ID)
if not ends then return { 'gone' } end -- guard: leased
if tonumber(ends) > now then return { 'alive', tonumber(ends) } end -- guard: lease_over
local known = redis.call('HMGET', MESSAGE, 'status', 'pause_ms')
wake(now)
if known[1] == 'scheduled' then
  unsend()
  redis.call('ZADD', QUEUE, FRONT, ID)
  become('queued', now, 'NOBODY_CLAIMED')
  return { 'queued' }
end
land(now, tonumber(known[2] or 0)) -- rearm: reclaim
if redis.call('HINCRBY', MESSAGE, 'crashes', 1) >= tonumber(ARGV[4]) then
  redis.call('ZADD', DEAD, now, ID)
  redis.call('HINCRBY', KEYS[16], 'failed', 1)
  redis.call('EXPIRE', KEYS[16], 34560000)
  become('failed', now, 'WORKER_CRASHED')
  return { 'failed' }
end
redis.call('ZADD', QUEUE, FRONT, ID)
become('queued', now, 'LEASE_EXPIRED')
return { 'queued' }
