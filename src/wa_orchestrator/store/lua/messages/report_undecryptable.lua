-- uses: _event
-- uses: _notice
-- report_undecryptable: append the event of an incoming message that cannot be read, once for all sessions of the phone, and note it
-- in the conversation.
-- Atomic because a worker repeats its events until they are accepted, and because the message itself may have come meanwhile.
-- KEYS[1] mark of this message and our phone  KEYS[2] incoming hash of the same message  KEYS[3] events stream
-- KEYS[4] which session of our phone could read it first  KEYS[5] zset of notices of the conversation
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone ('' = unknown)  ARGV[4] contact's LID ('' = unknown)  ARGV[5] ms to remember it
-- ARGV[6] WhatsApp's id  ARGV[7] reason  ARGV[8] group ('' = a private chat)  ARGV[9] the notice ('' = none)
-- returns {'reported'} | {'already'} | {'readable'}
local MARK, INCOMING, EVENTS, FIRST_REPORT, NOTICES = unpack(KEYS)
local session_id, phone, contact_phone, contact_lid, keep_ms, whatsapp_id, reason, group, notice = unpack(ARGV)
if redis.call('EXISTS', INCOMING) == 1 then return { 'readable' } end -- guard: readable_meanwhile
if redis.call('EXISTS', FIRST_REPORT) == 1 then return { 'readable' } end -- guard: readable_elsewhere
if redis.call('EXISTS', MARK) == 1 then return { 'already' } end -- guard: undecryptable_once
redis.call('SET', MARK, reason, 'PX', keep_ms)
local now = now_ms()
note_in_thread(NOTICES, notice, now, keep_ms)
emit(EVENTS, 'message.undecryptable', now, 'session', session_id, 'phone', phone,
  'whatsapp_id', whatsapp_id, 'reason', reason, 'contact_phone', contact_phone, 'contact_lid', contact_lid, 'group', group)
return { 'reported' }
