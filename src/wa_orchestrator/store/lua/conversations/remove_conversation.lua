-- uses: _conversation_index
-- remove_conversation: forget a conversation whose last message is old enough, or whose contact is erased.
-- Atomic because a message may come in at the same moment: then the conversation must stay whole.
-- KEYS[1] conversation hash  KEYS[2] thread zset  KEYS[3] index zset  KEYS[4] activity zset  KEYS[5] names zset
-- ARGV[1] session id  ARGV[2] contact  ARGV[3] last message at or before ms
-- returns {'removed'} | {'kept'}
local CONVERSATION, THREAD, INDEX, ACTIVITY, NAMES = unpack(KEYS)
local session_id, contact, until_ms = unpack(ARGV)
local last = redis.call('HGET', CONVERSATION, 'last_at')
if last and tonumber(last) > tonumber(until_ms) then return { 'kept' } end -- guard: conversation_old
forget(INDEX, ACTIVITY, NAMES, CONVERSATION)
redis.call('ZREM', ACTIVITY, session_id .. ' ' .. contact)
redis.call('DEL', CONVERSATION, THREAD)
return { 'removed' }
