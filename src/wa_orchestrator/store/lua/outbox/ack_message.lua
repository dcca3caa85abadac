-- uses: _message
-- uses: _conversation
-- uses: _strangers
-- uses: _worker_event
-- ack_message: WhatsApp has the message (sent), or its recipient has it (delivered, read). True from any worker of its session or
-- phone, so no epoch is checked, unless a worker's event says it: then the event is noted in the same step.
-- Atomic because the message may by then be claimed, back in the queue or failed, and must leave that place as it becomes sent.
-- KEYS: the message layout, then KEYS[17] stats hash of the session's day  KEYS[18] of all sessions' day
-- KEYS[19] contacts set  KEYS[20] affinity string  KEYS[21] unconfirmed zset
-- KEYS[22] zset of strangers written to who have not answered  KEYS[23] hash of the session that reports it
-- KEYS[24] mark of the event (missing = no event)
-- ARGV[4] status: sent | delivered | read  ARGV[5] WhatsApp's id  ARGV[6] instant by WhatsApp's clock ms  ARGV[7] id of the session that reports it
-- ARGV[8] the event's epoch  ARGV[9] its digest  ARGV[10] ms to keep its mark
-- returns {'became', status} | {'already', status} | {'unknown'} | {'mismatch', WhatsApp's id} | {'stranger'}
--   | {'fenced', epoch} | {'in_progress'} | {'repeated'}
local STATS, TOTALS, CONTACTS, AFFINITY, UNCONFIRMED, UNANSWERED, REPORTER, HEARD = unpack(KEYS, 17, 24)
local target, whatsapp_id, whatsapp_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])
local RANK = { sent = 1, delivered = 2, read = 3 }
local STAMP = { sent = 'sent_at', delivered = 'delivered_at', read = 'read_at' }
local refused = HEARD and refused_event(REPORTER, HEARD, ARGV[8])
if refused then return refused end

-- done: the reply, once the event is noted. Last, so that an event whose script broke off comes again.
local function done(...)
  if HEARD then note_event(HEARD, ARGV[9], ARGV[10]) end
  return { ... }
end
local now = now_ms()

local status = redis.call('HGET', MESSAGE, 'status')
if not status then return { 'unknown' } end
if is_stranger(REPORTER, ARGV[7]) then return { 'stranger' } end -- guard: ack_owner
local known_id, pause_ms, recipient, claimed_at = unpack(redis.call('HMGET', MESSAGE, 'whatsapp_id', 'pause_ms', 'to', 'claimed_at'))
pause_ms = tonumber(pause_ms or 0)
if known_id ~= whatsapp_id then return done('mismatch', known_id) end -- guard: ack_id
if (RANK[status] or 0) >= RANK[target] then return done('already', status) end -- guard: ack_monotone
if not RANK[status] then -- not yet known as sent
  if redis.call('HGET', PACE, 'in_flight') == ID then
    end_flight(now, pause_ms)
    redis.call('HDEL', PACE, 'slowdowns')
    local service = now - tonumber(claimed_at or now)
    local mean = tonumber(redis.call('HGET', PACE, 'service_ms') or service)
    redis.call('HSET', PACE, 'service_ms', math.floor((4 * mean + service) / 5))
  else -- it was back in the queue, or had ended: the phone's next message must still keep the pause
    redis.call('ZREM', QUEUE, ID)
    redis.call('ZREM', ASIDE, ID)
    redis.call('ZREM', DEAD, ID)
    silence(now, math.max(silence_end(now) - now, pause_ms))
  end
  if status == 'unknown' then redis.call('ZREM', UNCONFIRMED, recipient) end
  count_message(STATS, TOTALS, 'sent')
  keep_sender(AFFINITY)
  count_stranger(CONTACTS, UNANSWERED, recipient, now)
  wake_after_pause(now)
  if target ~= 'sent' then -- the receipt overtook the acknowledgement: what was delivered was also sent
    redis.call('HSET', MESSAGE, STAMP.sent, whatsapp_ms)
    set_status('sent', now, '')
  end
end
if target ~= 'sent' then
  local is_known = true
  -- Not while messages are set aside: what follows to this recipient would overtake one of them.
  if redis.call('EXISTS', ASIDE) == 1 then is_known = false end -- guard: known_in_order
  if is_known then redis.call('SADD', CONTACTS, recipient) end
  count_message(STATS, TOTALS, target)
end
-- WhatsApp's clock counts whole seconds: a later status must not have an earlier time.
local before = redis.call('HMGET', MESSAGE, 'sent_at', 'delivered_at')
local at = math.max(whatsapp_ms, tonumber(before[1] or 0), tonumber(before[2] or 0))
redis.call('HSET', MESSAGE, STAMP[target], string.format('%.0f', at))
set_status(target, now, '')
return done('became', target)
