-- uses: _conversation
-- uses: _event
-- uses: _worker_event
-- receive_message: a contact wrote to one of our phones. Store the message once, remember the contact and append the event.
-- Atomic because a worker repeats its events until they are accepted, and a message must be reported once.
-- KEYS[1] incoming hash  KEYS[2] contacts set  KEYS[3] affinity string  KEYS[4] LID of the phone  KEYS[5] phone of the LID  KEYS[6] events stream
-- KEYS[7] zset of incoming messages  KEYS[8] opt-outs hash  KEYS[9] set-aside zset of our phone  KEYS[10] session hash
-- KEYS[11] mark of the event (missing = no event)
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone ('' = unknown)  ARGV[4] contact's LID ('' = unknown)  ARGV[5] ms to keep it
-- ARGV[6] WhatsApp's id  ARGV[7] kind  ARGV[8] group ('' = a private chat)  ARGV[9] opts_out | '': whether it is a stop word
-- ARGV[10] the event's epoch  ARGV[11] its digest  ARGV[12] ms to keep its mark
-- ARGV[13…] fields and values of the message (its text among them, which the stream does not get)
-- returns {'received', rest} | {'already', rest} | {'fenced', epoch} | {'in_progress'} | {'repeated'}
--   rest: '' | 'rest': the contact opts out, or did as a LID, or messages to somebody are set aside; the caller goes on
local INCOMING, CONTACTS, AFFINITY, LID_OF_PHONE, PHONE_OF_LID, EVENTS, RECENT, OPT_OUTS, ASIDE, SESSION, HEARD = unpack(KEYS, 1, 11)
local session_id, phone, contact_phone, contact_lid, keep_ms, whatsapp_id, kind, group, opts_out = unpack(ARGV, 1, 9)
local refused = HEARD and refused_event(SESSION, HEARD, ARGV[10])
if refused then return refused end
local rest = ''
if group == '' then
  local is_known = contact_phone ~= ''
  local is_aside = is_known and redis.call('EXISTS', ASIDE) == 1
  local was_opted_out = is_known and contact_lid ~= '' and redis.call('HEXISTS', OPT_OUTS, 'lid:' .. contact_lid) == 1
  if opts_out ~= '' or is_aside or was_opted_out then rest = 'rest' end
end

-- done: the reply, once the event is noted or begun. Last, so that an event whose script broke off comes again.
local function done(word)
  if HEARD then note_event(HEARD, ARGV[11], ARGV[12]) end
  if HEARD and rest ~= '' then begin_event(HEARD) end -- guard: rest_first
  return { word, rest }
end
if redis.call('EXISTS', INCOMING) == 1 then return done('already') end -- guard: receive_once
local now = now_ms()
redis.call('HSET', INCOMING, 'whatsapp_id', whatsapp_id, 'kind', kind, 'contact_phone', contact_phone, 'contact_lid', contact_lid, 'received_at', now,
  'group', group, unpack(ARGV, 13))
redis.call('PEXPIRE', INCOMING, keep_ms)
redis.call('ZADD', RECENT, now, session_id .. ' ' .. whatsapp_id)
local partner = contact_phone
-- Who writes in a group has no chat with us: to that person we are still a new contact.
if group ~= '' then partner = '' end -- guard: private_chat
if partner ~= '' then
  redis.call('SADD', CONTACTS, partner)
  set_sender(AFFINITY, session_id)
end
if contact_phone ~= '' and contact_lid ~= '' then
  redis.call('SET', LID_OF_PHONE, contact_lid, 'EX', 34560000)
  redis.call('SET', PHONE_OF_LID, contact_phone, 'EX', 34560000)
end
emit(EVENTS, 'message.received', now, 'session', session_id, 'phone', phone,
  'whatsapp_id', whatsapp_id, 'kind', kind, 'contact_phone', contact_phone, 'contact_lid', contact_lid, 'group', group)
return done('received')
