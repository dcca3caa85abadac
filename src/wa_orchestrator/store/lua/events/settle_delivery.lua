-- uses: _event
-- settle_delivery: record the outcome of an attempt to deliver an event, and when the next one is.
-- Atomic because the queue, the delivery and the webhook's own state must agree; a webhook that fails for too long is disabled once.
-- KEYS[1] due zset  KEYS[2] delivery hash  KEYS[3] state of the webhook  KEYS[4] events stream
-- ARGV[1] webhook id  ARGV[2] event  ARGV[3] mark it was taken with  ARGV[4] outcome: delivered | waiting | failed  ARGV[5] next attempt ms
-- ARGV[6] note (a status or an error)  ARGV[7] ms of failing after which the webhook is disabled
-- returns {'settled'} | {'disabled'} | {'taken_over'}
local DUE, DELIVERY, STATE, EVENTS = unpack(KEYS)
local webhook, event, seen_mark, outcome, next_ms, note, disable_ms = unpack(ARGV)
local now = now_ms()
local member = webhook .. '/' .. event
local mark = tonumber(redis.call('ZSCORE', DUE, member) or -1)
if outcome ~= 'delivered' and mark ~= tonumber(seen_mark) then return { 'taken_over' } end -- guard: delivery_mark
if outcome == 'waiting' then redis.call('ZADD', DUE, next_ms, member) else redis.call('ZREM', DUE, member) end
if redis.call('EXISTS', DELIVERY) == 1 then
  redis.call('HINCRBY', DELIVERY, 'attempts', 1)
  redis.call('HSET', DELIVERY, 'status', outcome, 'note', note, 'tried_at', now, 'next_at', outcome == 'waiting' and next_ms or 0)
end
if outcome == 'delivered' then
  redis.call('HDEL', STATE, 'failing_since')
  return { 'settled' }
end
redis.call('HSETNX', STATE, 'failing_since', now)
local failing_since, disabled_at = unpack(redis.call('HMGET', STATE, 'failing_since', 'disabled_at'))
if disabled_at or now - tonumber(failing_since) < tonumber(disable_ms) then return { 'settled' } end -- guard: disable_late
redis.call('HSET', STATE, 'disabled_at', now, 'why', note)
emit(EVENTS, 'webhook.disabled', now, 'session', '', 'webhook', webhook, 'note', note)
return { 'disabled' }
