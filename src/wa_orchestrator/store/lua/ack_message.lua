-- uses: _message
-- ack_message: WhatsApp has the message (sent), or its recipient has it (delivered, read). True whoever says it, so no epoch is asked.
-- Atomic because wherever the message stands by then (claimed, taken back, even failed) it must leave that place as it becomes sent.
-- KEYS: the message layout, then KEYS[16] stats hash of the day  KEYS[17] contacts set  KEYS[18] affinity string
-- ARGV[4] status: sent | delivered | read  ARGV[5] WhatsApp's id  ARGV[6] instant by WhatsApp's clock ms
-- returns {'became', status} | {'already', status} | {'unknown'} | {'mismatch', WhatsApp's id}
local RANK = { sent = 1, delivered = 2, read = 3 }
local STAMP = { sent = 'sent_at', delivered = 'delivered_at', read = 'read_at' }
local now = now_ms()
local status, target = redis.call('HGET', MESSAGE, 'status'), ARGV[4]
if not status then return { 'unknown' } end
local known = redis.call('HMGET', MESSAGE, 'whatsapp_id', 'pause_ms', 'to', 'session', 'claimed_at')
if known[1] ~= ARGV[5] then return { 'mismatch', known[1] } end -- guard: ack_id
if (RANK[status] or 0) >= RANK[target] then return { 'already', status } end -- guard: ack_monotone
if not RANK[status] then -- not yet known as sent
  if redis.call('HGET', PACE, 'in_flight') == ID then
    land(now, tonumber(known[2] or 0))
    local service = now - tonumber(known[5] or now)
    local mean = tonumber(redis.call('HGET', PACE, 'service_ms') or service)
    redis.call('HSET', PACE, 'service_ms', math.floor((4 * mean + service) / 5))
  else -- it was taken back, or had ended, when the truth arrived: whoever speaks next must still keep the pause
    redis.call('ZREM', QUEUE, ID)
    redis.call('ZREM', ASIDE, ID)
    redis.call('ZREM', DEAD, ID)
    local silent_until = math.max(tonumber(redis.call('HGET', PACE, 'silent_until') or 0), now + tonumber(known[2] or 0))
    redis.call('HSET', PACE, 'silent_until', silent_until)
  end
  redis.call('HINCRBY', KEYS[16], 'sent', 1)
  redis.call('SET', KEYS[18], known[4], 'EX', 7776000)
  wake(now)
  if target ~= 'sent' then -- the receipt overtook the acknowledgement: nobody has what WhatsApp did not take
    redis.call('HSET', MESSAGE, STAMP.sent, ARGV[6])
    become('sent', now, '')
  end
end
if target ~= 'sent' then
  redis.call('SADD', KEYS[17], known[3])
  redis.call('HINCRBY', KEYS[16], target, 1)
end
redis.call('EXPIRE', KEYS[16], 34560000)
-- WhatsApp's clock counts whole seconds: what comes later must not look earlier.
local before = redis.call('HMGET', MESSAGE, 'sent_at', 'delivered_at')
local at = math.max(tonumber(ARGV[6]), tonumber(before[1] or 0), tonumber(before[2] or 0))
redis.call('HSET', MESSAGE, STAMP[target], string.format('%.0f', at))
become(target, now, '')
return { 'became', target }
