-- The index of messages by status, one zset in the order of its members: `<session>:<status> <accepted at> <id>`, and the same without
-- a session. A message is in it from its routing on; before, a search finds it among the jobs. A page of any status costs the same however many messages there are.
-- store/messages/message_index.py reads it.

local function status_members(session_id, status, accepted_at, id)
  local tail = string.format(':%s %013.0f %s', status, tonumber(accepted_at), id)
  return tail, session_id .. tail
end

-- add_status, remove_status: a message has this status, or has it no longer.
local function add_status(statuses, session_id, status, accepted_at, id)
  local of_all, of_session = status_members(session_id, status, accepted_at, id)
  redis.call('ZADD', statuses, 0, of_all, 0, of_session)
end

local function remove_status(statuses, session_id, status, accepted_at, id)
  redis.call('ZREM', statuses, status_members(session_id, status, accepted_at, id))
end
