-- restore_messages: somebody wrote to a phone that may not reach out: what was set aside for them returns to its old place in the queue.
-- Atomic because leaving the one and entering the other must be one step.
-- KEYS[1] set-aside zset  KEYS[2] queue zset  KEYS[3] due zset  ARGV[1] phone  ARGV[2…] message ids
-- returns {'reopened', how many}
local count = 0
for index = 2, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[index])
  if score then -- guard: still_aside
    redis.call('ZREM', KEYS[1], ARGV[index])
    redis.call('ZADD', KEYS[2], score, ARGV[index])
    count = count + 1
  end
end
if count > 0 then
  redis.call('ZADD', KEYS[3], 'LT', now_ms(), ARGV[1])
  redis.call('PUBLISH', 'dispatch:wake', ARGV[1])
end
return { 'reopened', count }
