-- take_due_items: take the items (phones, deliveries) that are due; each stays taken for a while, so that no other process takes it too.
-- Atomic because several processes ask at once. If the taker dies, the item becomes due again by itself.
-- The mark is unique (a fraction of a millisecond from a counter), so that settle_due_item knows which take it ends.
-- KEYS[1] due zset  KEYS[2] counter of marks  ARGV[1] how many  ARGV[2] for how long ms
-- returns {'taken', now, mark, item …} | {'nothing', now, next instant or -1}
local DUE, MARKS = KEYS[1], KEYS[2]
local most, away_ms = ARGV[1], tonumber(ARGV[2])
local now = now_ms()
local items = redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, most)
if #items == 0 then
  local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return { 'nothing', now, tonumber(first[2] or -1) }
end
local mark = now + away_ms + (redis.call('INCR', MARKS) % 1024) / 1024
for _, item in ipairs(items) do redis.call('ZADD', DUE, mark, item) end
return { 'taken', now, string.format('%.17g', mark), unpack(items) }
