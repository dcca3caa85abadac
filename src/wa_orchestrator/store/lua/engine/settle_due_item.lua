-- settle_due_item: set when an item (a phone, a delivery) is due next, unless it was woken since it was taken.
-- Atomic because a wake-up between the taker's look and this write would be lost.
-- KEYS[1] due zset  ARGV[1] item  ARGV[2] mark it was taken with  ARGV[3] next instant ms (-1 = nothing waits)
-- returns {'settled'} | {'woken'}
local DUE = KEYS[1]
local item, seen_mark, next_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mark = tonumber(redis.call('ZSCORE', DUE, item) or -1)
if mark ~= seen_mark then return { 'woken' } end -- guard: mark
if next_ms == '-1' then redis.call('ZREM', DUE, item) else redis.call('ZADD', DUE, next_ms, item) end
return { 'settled' }
