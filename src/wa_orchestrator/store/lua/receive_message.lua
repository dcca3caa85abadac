-- uses: _conversation
-- uses: _event
-- receive_message: a contact wrote to one of our phones. Store the message once, remember the contact and append the event.
-- Atomic because a worker repeats its events until they are accepted, and a message must be reported once.
-- KEYS[1] incoming hash  KEYS[2] contacts set  KEYS[3] affinity string  KEYS[4] LID of the phone  KEYS[5] phone of the LID  KEYS[6] events stream
-- KEYS[7] zset of incoming messages
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone ('' = unknown)  ARGV[4] contact's LID ('' = unknown)  ARGV[5] ms to keep it
-- ARGV[6] WhatsApp's id  ARGV[7] kind  ARGV[8] group ('' = a private chat)
-- ARGV[9…] fields and values of the message (its text among them, which the stream does not get)
-- returns {'received'} | {'already'}
local INCOMING, CONTACTS, AFFINITY, LID_OF_PHONE, PHONE_OF_LID, EVENTS, RECENT = unpack(KEYS)
local session_id, phone, contact_phone, contact_lid, keep_ms, whatsapp_id, kind, group = unpack(ARGV, 1, 8)
if redis.call('EXISTS', INCOMING) == 1 then return { 'already' } end -- guard: receive_once
local now = now_ms()
redis.call('HSET', INCOMING, 'whatsapp_id', whatsapp_id, 'kind', kind, 'contact_phone', contact_phone, 'contact_lid', contact_lid, 'received_at', now,
  'group', group, unpack(ARGV, 9))
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
return { 'received' }
