-- uses: _event
-- uses: _deadline
-- lock_reachout: record whether WhatsApp lets a phone write to new contacts, and make the phone due.
-- Atomic because the event is written once, a guess must not shorten WhatsApp's own deadline, and a worker's later report wins.
-- KEYS[1] pace hash  KEYS[2] due zset  KEYS[3] events stream
-- ARGV[1] phone  ARGV[2] session id  ARGV[3] until ms (0 = no lock)  ARGV[4] 'reported' = by WhatsApp, 'guessed' = after an error
-- ARGV[5] reporter: session and epoch ('' = a report without order)  ARGV[6] the number of the report
-- returns {'locked', until ms} | {'open'} | {'same'}
local PACE, DUE, EVENTS = KEYS[1], KEYS[2], KEYS[3]
local phone, session_id, ends, source, reporter, number = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local now = now_ms()
local known = tonumber(redis.call('HGET', PACE, 'lock_until') or 0)
if reporter ~= '' then
  local last = redis.call('HMGET', PACE, 'lock_said_by', 'lock_said')
  if last[1] == reporter and tonumber(last[2]) > tonumber(number) then return { 'same' } end -- guard: lock_order
  redis.call('HSET', PACE, 'lock_said_by', reporter, 'lock_said', number)
end
if source == 'guessed' and known >= ends then return { 'same' } end -- guard: lock_guess
if known == ends or (known <= now and ends <= now) then return { 'same' } end -- guard: lock_news
redis.call('HSET', PACE, 'lock_until', string.format('%.0f', ends))
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
emit(EVENTS, ends > now and 'session.reachout_locked' or 'session.reachout_unlocked', now, 'session', session_id, 'phone', phone,
  'until', deadline_text(ends))
if ends > now then return { 'locked', ends } end
return { 'open' }
