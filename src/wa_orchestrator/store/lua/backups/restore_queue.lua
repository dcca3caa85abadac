-- restore_queue: the reach-out lock has ended; all messages set aside return to their old place in the queue.
-- Atomic because the lock may come back in between.
-- KEYS[1] pace hash  KEYS[2] set-aside zset  KEYS[3] queue zset  KEYS[4] due zset  ARGV[1] phone
-- returns {'restored', how many} | {'locked', until ms}
local PACE, ASIDE, QUEUE, DUE = unpack(KEYS)
local phone = ARGV[1]
local now = now_ms()
local lock_until = tonumber(redis.call('HGET', PACE, 'lock_until') or 0)
if lock_until > now then return { 'locked', lock_until } end -- guard: lock_over
local waiting = redis.call('ZRANGE', ASIDE, 0, -1, 'WITHSCORES')
for index = 1, #waiting, 2 do redis.call('ZADD', QUEUE, waiting[index + 1], waiting[index]) end
redis.call('DEL', ASIDE)
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
return { 'restored', #waiting / 2 }
