-- restore_messages: a contact wrote to a phone with a reach-out lock: the messages set aside for it return to their old place in the queue.
-- Atomic because leaving the one and entering the other must be one step.
-- KEYS[1] set-aside zset  KEYS[2] queue zset  KEYS[3] due zset  ARGV[1] phone  ARGV[2…] message ids
-- returns {'reopened', how many}
local ASIDE, QUEUE, DUE = KEYS[1], KEYS[2], KEYS[3]
local phone = ARGV[1]
local count = 0
for index = 2, #ARGV do
  local id = ARGV[index]
  local score = redis.call('ZSCORE', ASIDE, id)
  if score then -- guard: still_aside
    redis.call('ZREM', ASIDE, id)
    redis.call('ZADD', QUEUE, score, id)
    count = count + 1
  end
end
if count > 0 then
  redis.call('ZADD', DUE, 'LT', now_ms(), phone)
  redis.call('PUBLISH', 'dispatch:wake', phone)
end
return { 'reopened', count }
