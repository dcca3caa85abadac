-- uses: _event
-- change_identity: a contact's number belongs to another WhatsApp account now. Forget what was known of the person before, and emit it once.
-- Atomic because several sessions find it out at the same time, and a worker repeats its events until they are accepted.
-- KEYS[1] LID of the phone  KEYS[2] phone of the old LID  KEYS[3] phone of the new LID  KEYS[4] contacts set of our phone  KEYS[5] events stream
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone  ARGV[4] old LID ('' = unknown)  ARGV[5] new LID ('' = unknown)
-- returns {'changed'} | {'already'}
local LID_OF_PHONE, PHONE_OF_OLD, PHONE_OF_NEW, CONTACTS, EVENTS = unpack(KEYS)
local session_id, phone, contact_phone, old_lid, new_lid = unpack(ARGV)
-- Whoever has the number now has not written to us: a first message to them counts as one.
local was_known = redis.call('SREM', CONTACTS, contact_phone)
local stored = redis.call('GET', LID_OF_PHONE)
if was_known == 0 and new_lid ~= '' and stored == new_lid then return { 'already' } end -- guard: identity_once
if old_lid ~= '' then redis.call('DEL', PHONE_OF_OLD) end
if new_lid ~= '' then
  redis.call('SET', LID_OF_PHONE, new_lid, 'EX', 34560000)
  redis.call('SET', PHONE_OF_NEW, contact_phone, 'EX', 34560000)
else
  redis.call('DEL', LID_OF_PHONE)
end
emit(EVENTS, 'contact.identity_changed', now_ms(), 'session', session_id, 'phone', phone, 'contact_phone', contact_phone,
  'contact_lid', new_lid, 'previous_lid', old_lid)
return { 'changed' }
