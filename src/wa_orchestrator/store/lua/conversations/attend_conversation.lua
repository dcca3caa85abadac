-- attend_conversation: record for a short time that a person has a conversation open, with their draft.
-- Atomic because the conversation may be erased at the same moment: nothing of it must come back.
-- KEYS[1] conversation hash  KEYS[2] presence hash
-- ARGV[1] who  ARGV[2] what they do, a space, their name  ARGV[3] kept for ms  ARGV[4] 'draft' if ARGV[5] is a new one
-- ARGV[5] what they have begun to write; '' = nothing
-- returns {'noted'} | {'unknown'}
local CONVERSATION, PRESENCE = unpack(KEYS)
local who, doing, keep_ms, is_draft, draft = unpack(ARGV)
if redis.call('EXISTS', CONVERSATION) == 0 then return { 'unknown' } end
redis.call('HSET', PRESENCE, who, string.format('%.0f', now_ms()) .. ' ' .. doing)
redis.call('PEXPIRE', PRESENCE, keep_ms)
if is_draft == 'draft' then
  if draft == '' then redis.call('HDEL', CONVERSATION, 'draft ' .. who) else redis.call('HSET', CONVERSATION, 'draft ' .. who, draft) end
end
return { 'noted' }
