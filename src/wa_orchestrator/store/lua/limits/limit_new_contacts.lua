-- uses: _event
-- uses: _deadline
-- limit_new_contacts: record whether WhatsApp lets a phone write to new contacts, and make the phone due.
-- Atomic because the event is written once, a guess must not change WhatsApp's own deadline, and a worker's later report wins.
-- KEYS[1] pace hash  KEYS[2] due zset  KEYS[3] events stream
-- ARGV[1] phone  ARGV[2] session id  ARGV[3] until ms (0 = no limit)  ARGV[4] 'reported' = by WhatsApp, 'guessed' = after an error
-- ARGV[5] reporter: session and epoch ('' = a report without order)  ARGV[6] the number of the report
-- ARGV[7] which limit: 'lock' = the reach-out lock, 'cap' = the allowance of new chats
-- returns {'limited', until ms} | {'open'} | {'same'}
local PACE, DUE, EVENTS = KEYS[1], KEYS[2], KEYS[3]
local phone, session_id, ends, source, reporter, number, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local now = now_ms()
local known = tonumber(redis.call('HGET', PACE, limit .. '_until') or 0)
if reporter ~= '' then
  local last = redis.call('HMGET', PACE, limit .. '_said_by', limit .. '_said')
  if last[1] == reporter and tonumber(last[2]) > tonumber(number) then return { 'same' } end -- guard: lock_order
  redis.call('HSET', PACE, limit .. '_said_by', reporter, limit .. '_said', number)
end
if source == 'guessed' and known >= ends then return { 'same' } end -- guard: lock_guess
-- A refusal is no news of a cap that is known; of a lock it is, because WhatsApp makes that longer.
if source == 'guessed' and limit == 'cap' and known > now then return { 'same' } end -- guard: cap_guess
if known == ends or (known <= now and ends <= now) then return { 'same' } end -- guard: lock_news
redis.call('HSET', PACE, limit .. '_until', string.format('%.0f', ends))
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
local till = deadline_text(ends)
if limit == 'lock' then
  emit(EVENTS, ends > now and 'session.reachout_locked' or 'session.reachout_unlocked', now, 'session', session_id, 'phone', phone, 'until', till)
else
  emit(EVENTS, ends > now and 'session.new_chats_capped' or 'session.new_chats_renewed', now, 'session', session_id, 'phone', phone, 'until', till)
end
if ends > now then return { 'limited', ends } end
return { 'open' }
