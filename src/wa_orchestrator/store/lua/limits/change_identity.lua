-- uses: _event
-- change_identity: a contact's number belongs to another WhatsApp account now. Forget what was known of the person before, and emit it once.
-- Atomic because several sessions find it out at the same time, and a worker repeats its events until they are accepted.
-- KEYS[1] LID of the phone  KEYS[2] phone of the old LID  KEYS[3] phone of the new LID  KEYS[4] contacts set of our phone  KEYS[5] events stream
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact's phone  ARGV[4] old LID ('' = unknown)  ARGV[5] new LID ('' = unknown)
-- ARGV[6] 'proven' if our phone has just written to them: else a worker that was taken over may have made it up, and their names stay
-- returns {'changed'} | {'already'}
local LID_OF_PHONE, PHONE_OF_OLD, PHONE_OF_NEW, CONTACTS, EVENTS = unpack(KEYS)
local session_id, phone, contact_phone, old_lid, new_lid, proof = unpack(ARGV)
-- The person who has the number now has not written to us: the next message to them counts as a first one.
local was_known = redis.call('SREM', CONTACTS, contact_phone)
local stored = redis.call('GET', LID_OF_PHONE)
if was_known == 0 and new_lid ~= '' and stored == new_lid then return { 'already' } end -- guard: identity_once
local may_rename = true
if proof ~= 'proven' then may_rename = false end -- guard: identity_unproven
-- The worker's knowledge is older than ours: somebody has learned another LID of the number since.
if old_lid ~= '' and stored and stored ~= old_lid then may_rename = false end -- guard: newer_lid
if was_known == 0 and not may_rename then return { 'already' } end
-- A LID that belongs to another phone stays with it: a worker that was taken over could name any.
local is_old_ours, is_new_ours = true, true
if redis.call('GET', PHONE_OF_OLD) ~= contact_phone then is_old_ours = false end -- guard: old_lid_of_others
local holder = redis.call('GET', PHONE_OF_NEW) or ''
if holder ~= '' and holder ~= contact_phone then is_new_ours = false end -- guard: new_lid_of_others
if may_rename then
  if old_lid ~= '' and is_old_ours then redis.call('DEL', PHONE_OF_OLD) end
  redis.call('DEL', LID_OF_PHONE)
  if new_lid ~= '' then redis.call('SET', LID_OF_PHONE, new_lid, 'EX', 34560000) end
  if new_lid ~= '' and is_new_ours then redis.call('SET', PHONE_OF_NEW, contact_phone, 'EX', 34560000) end
end
emit(EVENTS, 'contact.identity_changed', now_ms(), 'session', session_id, 'phone', phone, 'contact_phone', contact_phone,
  'contact_lid', new_lid, 'previous_lid', old_lid)
return { 'changed' }
