-- queue_deliveries: put events into the queues of the webhooks that want them, and note up to where that was done.
-- Atomic because several orchestrators may read the same events: each event goes into each queue once.
-- KEYS[1] cursor  KEYS[2] due zset  then for delivery n: KEYS[1 + 2n] its hash  KEYS[2 + 2n] the log of its webhook
-- ARGV[1] cursor the caller read from ('' = none)  ARGV[2] cursor to note  then for delivery n four: webhook id, event, type, body
-- returns {'made', how many} | {'moved', cursor}
local known = redis.call('GET', KEYS[1]) or ''
if known ~= ARGV[1] then return { 'moved', known } end -- guard: fan_out_once
local now = now_ms()
local count = (#KEYS - 2) / 2
for n = 1, count do
  local first = 4 * n - 1
  redis.call('HSET', KEYS[1 + 2 * n], 'webhook', ARGV[first], 'event', ARGV[first + 1], 'type', ARGV[first + 2], 'body', ARGV[first + 3],
    'status', 'waiting', 'attempts', 0, 'made_at', now, 'note', '')
  redis.call('ZADD', KEYS[2 + 2 * n], now, ARGV[first + 1])
  redis.call('ZADD', KEYS[2], now, ARGV[first] .. '/' .. ARGV[first + 1])
end
redis.call('SET', KEYS[1], ARGV[2])
return { 'made', count }
