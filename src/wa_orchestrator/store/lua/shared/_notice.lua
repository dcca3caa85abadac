-- Shared by the scripts that report what is no message, but has its place in a conversation.

local MOST_NOTICES = 100

-- note_in_thread: remember a notice, '' for none, among those of its conversation, and forget those that are older than `keep_ms`.
local function note_in_thread(notices, notice, now, keep_ms)
  if notice == '' then return end
  redis.call('ZADD', notices, now, notice)
  redis.call('ZREMRANGEBYSCORE', notices, '-inf', string.format('%.0f', now - tonumber(keep_ms)))
  redis.call('ZREMRANGEBYRANK', notices, 0, -MOST_NOTICES - 1)
  redis.call('PEXPIRE', notices, keep_ms)
end
