-- uses: _event
-- add_opt_out: record that a recipient does not want messages any more.
-- Atomic because the first request counts, and is reported once.
-- KEYS[1] opt-outs hash  KEYS[2] events stream
-- ARGV[1] recipient  ARGV[2] word ('' = by an operator)  ARGV[3] via: reply | api  ARGV[4] session id  ARGV[5] our phone
-- returns {'added'} | {'already'}
local OPT_OUTS, EVENTS = KEYS[1], KEYS[2]
local recipient, word, via, session_id, phone = unpack(ARGV)
local now = now_ms()
local record = cjson.encode({ at_ms = now, word = word, via = via })
if redis.call('HSETNX', OPT_OUTS, recipient, record) == 0 then return { 'already' } end -- guard: opt_out_once
emit(EVENTS, 'contact.opted_out', now, 'session', session_id, 'phone', phone, 'contact_phone', recipient, 'word', word, 'via', via)
return { 'added' }
