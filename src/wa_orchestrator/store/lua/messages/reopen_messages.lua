-- reopen_messages: return messages that were set aside for a contact to their old place in the queue, because the contact wrote or
-- turned out to be known under another name; a contact who wrote is a known one from then on.
-- Atomic because a message that follows leaves as soon as the contact is known: it would overtake one that is still aside.
-- KEYS[1] set-aside zset  KEYS[2] queue zset  KEYS[3] due zset  KEYS[4] contacts set
-- ARGV[1] phone  ARGV[2] the contact who wrote ('' = nobody)  ARGV[3] how many messages return  ARGV[4…] their ids, then those of all others aside
-- returns {'reopened', how many} | {'changed'}: another message was set aside since the caller looked
local ASIDE, QUEUE, DUE, CONTACTS = unpack(KEYS)
local phone, contact, returning = ARGV[1], ARGV[2], tonumber(ARGV[3])
local FIRST_ID = 4
local seen = {}
for index = FIRST_ID, #ARGV do seen[ARGV[index]] = true end
for _, id in ipairs(redis.call('ZRANGE', ASIDE, 0, -1)) do
  if not seen[id] then return { 'changed' } end -- guard: aside_seen
end
local count = 0
for index = FIRST_ID, FIRST_ID + returning - 1 do
  local id = ARGV[index]
  local score = redis.call('ZSCORE', ASIDE, id)
  if score then -- guard: still_aside
    redis.call('ZREM', ASIDE, id)
    redis.call('ZADD', QUEUE, score, id)
    count = count + 1
  end
end
if contact ~= '' then redis.call('SADD', CONTACTS, contact) end
if count > 0 then
  redis.call('ZADD', DUE, 'LT', now_ms(), phone)
  redis.call('PUBLISH', 'dispatch:wake', phone)
end
return { 'reopened', count }
