-- take_due_items: take the items (phones, deliveries) that are due; each stays taken for a while, so that no other process takes it too.
-- Atomic because several processes ask at once. If the taker dies, the item becomes due again by itself.
-- The mark is unique (a fraction of a millisecond from a counter), so that settle_due_item knows which take it ends.
-- KEYS[1] due zset  KEYS[2] counter of marks  ARGV[1] how many  ARGV[2] for how long ms
-- returns {'taken', now, next instant or -1, mark, item …} | {'nothing', now, next instant or -1}
--   The next instant is that of the items that were not taken. Those that were are due then at the latest, as if nobody settled them.
local DUE, MARKS = KEYS[1], KEYS[2]
local most, away_ms = ARGV[1], tonumber(ARGV[2])
local now = now_ms()
local items = redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, most)
local function next_ms()
  local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return tonumber(first[2] or -1)
end
if #items == 0 then return { 'nothing', now, next_ms() } end
local mark = now + away_ms + (redis.call('INCR', MARKS) % 1024) / 1024
for _, item in ipairs(items) do redis.call('ZADD', DUE, mark, item) end
return { 'taken', now, next_ms(), string.format('%.17g', mark), unpack(items) }
