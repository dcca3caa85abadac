-- uses: _message
-- cancel_message: a message that no worker has claimed ends without being sent (cancelled, expired, or failed because nobody may send it).
-- Atomic because it may stand in any of five places and must leave exactly that one.
-- KEYS: the message layout, then KEYS[16] jobs list  KEYS[17] waiting hash  KEYS[18] scheduled zset
-- KEYS[19] stats hash of the day, for failed ones
-- ARGV[4] status: cancelled | expired | failed  ARGV[5] reason  ARGV[6] 'due' = only if its expiry has passed, '' = at once
-- returns {'ended'} | {'too_late', status} | {'unknown'} | {'early'} | {'moved'}
local now = now_ms()
local known = redis.call('HMGET', MESSAGE, 'status', 'expires_at')
if not known[1] then return { 'unknown' } end
if known[1] ~= 'queued' and known[1] ~= 'scheduled' then return { 'too_late', known[1] } end -- guard: not_claimed
if elsewhere() then return { 'moved' } end -- guard: cancel_place
if ARGV[6] == 'due' and tonumber(known[2] or 0) > now then return { 'early' } end -- guard: expired
if known[1] == 'scheduled' then unsend() end
if redis.call('LREM', KEYS[16], 1, ID) > 0 and redis.call('HINCRBY', KEYS[17], PHONE, -1) <= 0 then redis.call('HDEL', KEYS[17], PHONE) end
redis.call('ZREM', KEYS[18], ID)
redis.call('ZREM', QUEUE, ID)
redis.call('ZREM', ASIDE, ID)
if ARGV[4] == 'failed' then
  redis.call('ZADD', DEAD, now, ID)
  redis.call('HINCRBY', KEYS[19], 'failed', 1)
  redis.call('EXPIRE', KEYS[19], 34560000)
end
become(ARGV[4], now, ARGV[5])
wake(now)
return { 'ended' }
