-- uses: _statuses
-- Shared by the scripts with which a message leaves Redis or returns to it. Their keys come in one order:
-- KEYS[1] message hash  KEYS[2] timeline list  KEYS[3] ended zset  KEYS[4] dead zset  KEYS[5] index zset
-- KEYS[6] index of the session  KEYS[7] index of the recipient  KEYS[8] index of the reference  KEYS[9] index of the batch
-- KEYS[10] statuses zset
local MESSAGE, TIMELINE, ENDED, DEAD, INDEX, OF_SESSION, OF_RECIPIENT, OF_REFERENCE, OF_BATCH, STATUSES = unpack(KEYS, 1, 10)

-- remove_message: delete a message with its timeline and its index entries.
local function remove_message(id)
  local session_id, status, accepted_at = unpack(redis.call('HMGET', MESSAGE, 'session', 'status', 'accepted_at'))
  if status then remove_status(STATUSES, session_id, status, accepted_at, id) end
  redis.call('DEL', MESSAGE, TIMELINE)
  for index = 3, 9 do redis.call('ZREM', KEYS[index], id) end
end
