-- take_due_items: a dispatcher takes the phones that are due; each is away for a while, so that no other dispatcher takes it too.
-- Atomic because several dispatchers ask at once. If the taker dies, the phone is due again by itself.
-- The mark is unique (a fraction of a millisecond from a counter), so that settle_due_item knows whose look it was.
-- KEYS[1] due zset  KEYS[2] counter of marks  ARGV[1] how many  ARGV[2] for how long ms
-- returns {'taken', now, mark, phone …} | {'nothing', now, next instant or -1}
local now = now_ms()
local phones = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
if #phones == 0 then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return { 'nothing', now, tonumber(first[2] or -1) }
end
local mark = now + tonumber(ARGV[2]) + (redis.call('INCR', KEYS[2]) % 1024) / 1024
for _, phone in ipairs(phones) do redis.call('ZADD', KEYS[1], mark, phone) end
return { 'taken', now, string.format('%.17g', mark), unpack(phones) }
