-- uses: _message
-- release_message: move the first message of a phone from its queue to a session's outbox, if the phone may speak.
-- Atomic because two dispatchers may run: the look at the pause, the limits and what is in flight, and the move, must be one step.
-- KEYS: the message layout, then KEYS[16] holds hash  KEYS[17] contacts set  KEYS[18] opt-outs hash
-- ARGV[4] pause ms (drawn for this message)  ARGV[5] per minute  ARGV[6] per day  ARGV[7] start of the day ms  ARGV[8] end of the day ms
-- ARGV[9] open from ms  ARGV[10] open until ms  ARGV[11] lease ms  ARGV[12] recipient  ARGV[13] length of the minute ms  ARGV[14…] fields of holds that concern it, beside its phone's
-- returns {'released', now} | {'wait', until ms, because} | {'busy', id} | {'changed'} | {'offline', status} | {'held', field} | {'set_aside'}
--       | {'opted_out'} | {'expired'}
local now = now_ms()
local pace = redis.call('HMGET', PACE, 'in_flight', 'silent_until', 'lock_until')
local head = redis.call('ZRANGE', QUEUE, 0, 0)[1]
if pace[1] and pace[1] ~= '' then return { 'busy', pace[1] } end -- guard: one_in_flight
if head ~= ID then return { 'changed' } end -- guard: head
if redis.call('HEXISTS', KEYS[18], ARGV[12]) == 1 then return { 'opted_out' } end -- guard: release_opt_out
local expires_at = tonumber(redis.call('HGET', MESSAGE, 'expires_at') or 0)
if expires_at > 0 and expires_at <= now then return { 'expired' } end -- guard: release_expired
local session = redis.call('HMGET', SESSION, 'status', 'phone')
if session[1] ~= 'connected' then return { 'offline', session[1] or 'unknown' } end -- guard: connected
-- A session can be linked to another phone, or made again for one; what waits for this phone never leaves from that.
if session[2] ~= PHONE then return { 'offline', 'other_phone' } end -- guard: own_phone
local function held(field)
  local hold = redis.call('HGET', KEYS[16], field)
  return hold and cjson.decode(hold).until_ms > now
end
-- Asked for here whatever the caller knows: a session may have been linked to a banned phone a moment ago.
if held('phone:' .. PHONE) then return { 'held', 'phone:' .. PHONE } end -- guard: phone_hold
for index = 14, #ARGV do
  if held(ARGV[index]) then return { 'held', ARGV[index] } end -- guard: hold
end
if now < tonumber(ARGV[9]) or now >= tonumber(ARGV[10]) then return { 'wait', tonumber(ARGV[9]), 'OUTSIDE_HOURS' } end -- guard: hours
if now < tonumber(ARGV[7]) or now >= tonumber(ARGV[8]) then return { 'changed' } end -- guard: right_day
local silent_until = tonumber(pace[2] or 0)
if silent_until > now then return { 'wait', silent_until, 'PAUSE' } end -- guard: pause
local minute = tonumber(ARGV[13])
local recent = redis.call('ZRANGEBYSCORE', SENT, '(' .. string.format('%.0f', now - minute), '+inf', 'WITHSCORES')
local excess = #recent / 2 - tonumber(ARGV[5])
if excess >= 0 then return { 'wait', tonumber(recent[2 * excess + 2]) + minute, 'MINUTE_IS_FULL' } end -- guard: minute
if redis.call('ZCOUNT', SENT, ARGV[7], '+inf') >= tonumber(ARGV[6]) then return { 'wait', tonumber(ARGV[8]), 'DAY_IS_FULL' } end -- guard: day
if tonumber(pace[3] or 0) > now and redis.call('SISMEMBER', KEYS[17], ARGV[12]) == 0 then -- guard: reachout_lock
  redis.call('ZADD', ASIDE, redis.call('ZSCORE', QUEUE, ID), ID)
  redis.call('ZREM', QUEUE, ID)
  redis.call('RPUSH', STORY, string.format('%.0f', now) .. ' queued REACHOUT_LOCKED')
  return { 'set_aside' }
end
local releases = redis.call('HINCRBY', MESSAGE, 'releases', 1)
redis.call('HSET', MESSAGE, 'session', SESSION_ID, 'pause_ms', ARGV[4], 'released_at', now)
redis.call('ZREM', QUEUE, ID)
redis.call('RPUSH', OUTBOX, ID)
redis.call('ZADD', LEASES, now + tonumber(ARGV[11]), ID)
redis.call('ZREMRANGEBYSCORE', SENT, '-inf', now - 172800000)
redis.call('ZADD', SENT, now, ID .. '#' .. releases)
redis.call('HSET', PACE, 'in_flight', ID)
become('scheduled', now, '')
redis.call('PUBLISH', 'outbox:bell', SESSION_ID)
return { 'released', now }
