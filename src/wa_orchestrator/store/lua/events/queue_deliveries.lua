-- queue_deliveries: put events into the queues of the webhooks that want them, and move the cursor.
-- Atomic because several orchestrators may read the same events: each event goes into each queue once.
-- KEYS[1] cursor  KEYS[2] due zset  then for delivery n: KEYS[1 + 2n] its hash  KEYS[2 + 2n] the log of its webhook
-- ARGV[1] cursor the caller read from ('' = none)  ARGV[2] next cursor  then for delivery n four: webhook id, event, type, body
-- returns {'made', how many} | {'moved', cursor}
local CURSOR, DUE = KEYS[1], KEYS[2]
local seen, next_cursor = ARGV[1], ARGV[2]
local known = redis.call('GET', CURSOR) or ''
if known ~= seen then return { 'moved', known } end -- guard: fan_out_once
local now = now_ms()
local count = (#KEYS - 2) / 2
for n = 1, count do
  local DELIVERY, LOG = KEYS[1 + 2 * n], KEYS[2 + 2 * n]
  local webhook, event, kind, body = unpack(ARGV, 4 * n - 1, 4 * n + 2)
  redis.call('HSET', DELIVERY, 'webhook', webhook, 'event', event, 'type', kind, 'body', body,
    'status', 'waiting', 'attempts', 0, 'made_at', now, 'note', '')
  redis.call('ZADD', LOG, now, event)
  redis.call('ZADD', DUE, now, webhook .. '/' .. event)
end
redis.call('SET', CURSOR, next_cursor)
return { 'made', count }
