-- uses: _event
-- settle_delivery: write down what came of an attempt to deliver an event, and when the next one is.
-- Atomic because the queue, the delivery and the webhook's own state must agree; a webhook that fails for too long is disabled once.
-- KEYS[1] due zset  KEYS[2] delivery hash  KEYS[3] state of the webhook  KEYS[4] events stream
-- ARGV[1] webhook id  ARGV[2] event  ARGV[3] mark it was taken with  ARGV[4] outcome: delivered | waiting | failed  ARGV[5] next attempt ms
-- ARGV[6] note (a status or an error)  ARGV[7] ms of failing after which the webhook is disabled
-- returns {'settled'} | {'disabled'} | {'taken_over'}
local now = now_ms()
local member = ARGV[1] .. '/' .. ARGV[2]
local mark = tonumber(redis.call('ZSCORE', KEYS[1], member) or -1)
if ARGV[4] ~= 'delivered' and mark ~= tonumber(ARGV[3]) then return { 'taken_over' } end -- guard: delivery_mark
if ARGV[4] == 'waiting' then redis.call('ZADD', KEYS[1], ARGV[5], member) else redis.call('ZREM', KEYS[1], member) end
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HINCRBY', KEYS[2], 'attempts', 1)
  redis.call('HSET', KEYS[2], 'status', ARGV[4], 'note', ARGV[6], 'tried_at', now, 'next_at', ARGV[4] == 'waiting' and ARGV[5] or 0)
end
if ARGV[4] == 'delivered' then
  redis.call('HDEL', KEYS[3], 'failing_since')
  return { 'settled' }
end
redis.call('HSETNX', KEYS[3], 'failing_since', now)
local state = redis.call('HMGET', KEYS[3], 'failing_since', 'disabled_at')
if state[2] or now - tonumber(state[1]) < tonumber(ARGV[7]) then return { 'settled' } end -- guard: disable_late
redis.call('HSET', KEYS[3], 'disabled_at', now, 'why', ARGV[6])
emit(KEYS[4], 'webhook.disabled', now, 'session', '', 'webhook', ARGV[1], 'note', ARGV[6])
return { 'disabled' }
