-- restore_queue: the reach-out lock is over; what was set aside returns to its old place in the queue.
-- Atomic because the lock may come back in between.
-- KEYS[1] pace hash  KEYS[2] set-aside zset  KEYS[3] queue zset  KEYS[4] due zset  ARGV[1] phone
-- returns {'restored', how many} | {'locked', until ms}
local now = now_ms()
local lock_until = tonumber(redis.call('HGET', KEYS[1], 'lock_until') or 0)
if lock_until > now then return { 'locked', lock_until } end -- guard: lock_over
local waiting = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for index = 1, #waiting, 2 do redis.call('ZADD', KEYS[3], waiting[index + 1], waiting[index]) end
redis.call('DEL', KEYS[2])
redis.call('ZADD', KEYS[4], 'LT', now, ARGV[1])
redis.call('PUBLISH', 'dispatch:wake', ARGV[1])
return { 'restored', #waiting / 2 }
