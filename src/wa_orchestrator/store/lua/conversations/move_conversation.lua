-- uses: _conversation_index
-- move_conversation: another session of the account keeps a conversation from now on, because the one that had it was deleted.
-- Atomic because the contact may write at the same moment.
-- KEYS[1] conversation hash  KEYS[2] its thread zset  KEYS[3] conversation hash under the other session  KEYS[4] its thread zset
-- KEYS[5] index zset  KEYS[6] activity zset  KEYS[7] names zset
-- ARGV[1] the other session
-- returns {'moved'} | {'kept'}
local CONVERSATION, THREAD, OTHER, OTHER_THREAD, INDEX, ACTIVITY, NAMES = unpack(KEYS)
local other = ARGV[1]
if redis.call('EXISTS', CONVERSATION) == 0 then return { 'kept' } end -- guard: move_known
if redis.call('EXISTS', OTHER) == 1 then return { 'kept' } end -- guard: move_over_nothing
local first, contact, last_at = unpack(redis.call('HMGET', CONVERSATION, 'session', 'contact', 'last_at'))
forget(INDEX, ACTIVITY, NAMES, CONVERSATION)
redis.call('RENAME', CONVERSATION, OTHER)
redis.call('HSET', OTHER, 'session', other)
note_device(OTHER, first)
set_name(NAMES, OTHER, '', '')
enter_index(INDEX, OTHER)
redis.call('ZADD', ACTIVITY, last_at, other .. ' ' .. contact)
if redis.call('EXISTS', THREAD) == 1 then redis.call('RENAME', THREAD, OTHER_THREAD) end
return { 'moved' }
