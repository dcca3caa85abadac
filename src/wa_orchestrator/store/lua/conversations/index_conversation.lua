-- uses: _conversation_index
-- index_conversation: put a conversation where its hash says, and remove a member of the index that says otherwise.
-- A backup reads the index and the hashes one after the other, so after a restore they may differ.
-- Atomic because the conversation may change at the same moment.
-- KEYS[1] conversation hash  KEYS[2] index zset
-- ARGV[1] the member's tail, as it was read  ARGV[2] session id
-- returns {'indexed'} | {'gone'}
local CONVERSATION, INDEX = unpack(KEYS)
local tail, session_id = unpack(ARGV)
redis.call('ZREM', INDEX, tail, session_id .. tail)
if redis.call('EXISTS', CONVERSATION) == 0 then return { 'gone' } end -- guard: indexed_known
enter_index(INDEX, CONVERSATION)
return { 'indexed' }
