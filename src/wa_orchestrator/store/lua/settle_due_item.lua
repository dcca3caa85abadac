-- settle_due_item: a dispatcher has looked at a phone and says when to look again, unless somebody woke it meanwhile.
-- Atomic because a wake-up between the look and this word would be lost.
-- KEYS[1] due zset  ARGV[1] phone  ARGV[2] mark it was taken with  ARGV[3] next instant ms (-1 = nothing waits)
-- returns {'settled'} | {'woken'}
local mark = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1)
if mark ~= tonumber(ARGV[2]) then return { 'woken' } end -- guard: mark
if ARGV[3] == '-1' then redis.call('ZREM', KEYS[1], ARGV[1]) else redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) end
return { 'settled' }
