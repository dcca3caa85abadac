-- Used beside _message. Strangers: people who never wrote to a phone and got its first message, for the number's health. The last ones of a phone are
-- kept; a zset of them all would only grow.

local MOST_STRANGERS = 10000

-- count_stranger: a message was sent; whether it was the first one to a person who never wrote. Strangers in a row end with a
-- message to somebody who did.
local function count_stranger(contacts, unanswered, recipient, now)
  if recipient:sub(-5) == '@g.us' then return end -- guard: no_stranger_is_a_group
  redis.call('HSETNX', PACE, 'counted_since', now)
  local is_new = redis.call('SISMEMBER', contacts, recipient) == 0 and redis.call('ZADD', unanswered, 'NX', now, recipient) == 1
  if is_new then -- guard: stranger
    redis.call('ZREMRANGEBYRANK', unanswered, 0, -MOST_STRANGERS - 1)
    redis.call('HINCRBY', PACE, 'strangers', 1)
  elseif not redis.call('ZSCORE', unanswered, recipient) then -- guard: row_of_strangers
    redis.call('HDEL', PACE, 'strangers')
  end
end
