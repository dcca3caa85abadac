-- uses: _message
-- uses: _hold
-- uses: _new_contacts
-- release_message: move the first message of a phone from its queue to a session's outbox, if the phone may send now.
-- Atomic because two dispatchers may run: checking the pause, the limits and what is in flight, and the move, must be one step.
-- KEYS: the message layout, then KEYS[17] holds hash  KEYS[18] contacts set  KEYS[19] opt-outs hash
-- ARGV[4] pause ms (drawn for this message)  ARGV[5] per minute  ARGV[6] per day  ARGV[7] start of the day ms  ARGV[8] end of the day ms
-- ARGV[9] open from ms  ARGV[10] open until ms  ARGV[11] lease ms
-- ARGV[12] the recipient's other name, the same for none ('' = not looked up)  ARGV[13] length of the minute ms
-- ARGV[14…] fields of holds that concern it, beside its phone's
-- returns {'released', now} | {'wait', until ms, because} | {'busy', id} | {'changed'} | {'offline', status} | {'held', field} | {'set_aside'}
--       | {'must_end', reason}
local HOLDS, CONTACTS, OPT_OUTS = KEYS[17], KEYS[18], KEYS[19]
local pause_ms, per_minute, per_day, day_start, day_end = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local open_from, open_until, lease_ms, other_name, minute = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12], tonumber(ARGV[13])
local FIRST_HOLD = 14
local now = now_ms()
local in_flight, lock_until, cap_until = unpack(redis.call('HMGET', PACE, 'in_flight', 'lock_until', 'cap_until'))
local head = redis.call('ZRANGE', QUEUE, 0, 0)[1]
if in_flight and in_flight ~= '' then return { 'busy', in_flight } end -- guard: one_in_flight
if head ~= ID then return { 'changed' } end -- guard: head
local expires_at, to = unpack(redis.call('HMGET', MESSAGE, 'expires_at', 'to'))
if has_opted_out_by(OPT_OUTS, other_name, to) then return { 'must_end', 'OPTED_OUT' } end -- guard: release_opt_out
expires_at = tonumber(expires_at or 0)
if expires_at > 0 and expires_at <= now then return { 'must_end', 'EXPIRED' } end -- guard: release_expired
local status, phone = unpack(redis.call('HMGET', SESSION, 'status', 'phone'))
if status ~= 'connected' then return { 'offline', status or 'unknown' } end -- guard: connected
-- A session can be linked to another phone, or be created again for one; a phone's messages never leave from another phone.
if phone ~= PHONE then return { 'offline', 'other_phone' } end -- guard: own_phone
-- Checked whatever the caller knows: a session may have been linked to a banned phone a moment ago.
if is_held(HOLDS, 'phone:' .. PHONE, now) then return { 'held', 'phone:' .. PHONE } end -- guard: phone_hold
for index = FIRST_HOLD, #ARGV do
  if is_held(HOLDS, ARGV[index], now) then return { 'held', ARGV[index] } end -- guard: hold
end
if now < open_from or now >= open_until then return { 'wait', open_from, 'OUTSIDE_HOURS' } end -- guard: hours
if now < day_start or now >= day_end then return { 'changed' } end -- guard: right_day
local silent_until = silence_end(now)
if silent_until > now then return { 'wait', silent_until, 'PAUSE' } end -- guard: pause
-- Sent in the future: the clock was set back. Counted from now on, or the minute would be full for as long as that step.
for _, attempt in ipairs(redis.call('ZRANGEBYSCORE', SENT, '(' .. string.format('%.0f', now), '+inf')) do redis.call('ZADD', SENT, now, attempt) end -- guard: sent_in_future
local recent = redis.call('ZRANGEBYSCORE', SENT, '(' .. string.format('%.0f', now - minute), '+inf', 'WITHSCORES')
local excess = #recent / 2 - per_minute
if excess >= 0 then return { 'wait', tonumber(recent[2 * excess + 2]) + minute, 'MINUTE_IS_FULL' } end -- guard: minute
if redis.call('ZCOUNT', SENT, day_start, '+inf') >= per_day then return { 'wait', day_end, 'DAY_IS_FULL' } end -- guard: day
local limit = new_contact_limit(lock_until, cap_until, now)
if limit and other_name == '' then return { 'changed' } end -- guard: limit_by_name
-- They come first: the limit has ended since the caller looked.
if not limit and redis.call('EXISTS', ASIDE) == 1 then return { 'changed' } end -- guard: aside_returns
if limit and is_new_contact(CONTACTS, other_name, to) then -- guard: reachout_lock
  redis.call('ZADD', ASIDE, redis.call('ZSCORE', QUEUE, ID), ID)
  redis.call('ZREM', QUEUE, ID)
  add_to_timeline(now, 'queued', limit)
  return { 'set_aside' }
end
local releases = redis.call('HINCRBY', MESSAGE, 'releases', 1)
redis.call('HSET', MESSAGE, 'session', SESSION_ID, 'pause_ms', pause_ms, 'released_at', now)
redis.call('ZREM', QUEUE, ID)
redis.call('RPUSH', OUTBOX, ID)
redis.call('ZADD', LEASES, now + lease_ms, ID)
redis.call('ZREMRANGEBYSCORE', SENT, '-inf', now - 172800000)
redis.call('ZADD', SENT, now, ID .. '#' .. releases)
redis.call('HSET', PACE, 'in_flight', ID)
set_status('scheduled', now, '')
redis.call('PUBLISH', 'outbox:bell', SESSION_ID)
return { 'released', now }
