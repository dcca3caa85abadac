-- uses: _statuses
-- uses: _answer
-- route_message: move an accepted message from the gateway's jobs to its phone's queue, or to the schedule if it is not due yet.
-- Atomic because two dispatchers may hold the same job: leaving the list and entering the queue must be one step.
-- KEYS[1] jobs list  KEYS[2] waiting hash  KEYS[3] message hash  KEYS[4] queue zset  KEYS[5] scheduled zset  KEYS[6] due zset
-- KEYS[7] index zset  KEYS[8] index of the session  KEYS[9] index of the recipient  KEYS[10] index of the reference
-- KEYS[11] the session's hash, which must exist  KEYS[12] submitted zset  KEYS[13] later zset  KEYS[14] statuses zset
-- KEYS[15] index of the batch  KEYS[16] hash of the conversation, if there is one  KEYS[17] index of conversations
-- KEYS[18] their activity zset
-- ARGV[1] id  ARGV[2] phone  ARGV[3] session id
-- returns {'queued', score} | {'scheduled', due} | {'gone'} | {'no_session'}
local JOBS, WAITING, MESSAGE, QUEUE, SCHEDULED, DUE, INDEX, OF_SESSION, OF_RECIPIENT, OF_REFERENCE, SESSION, SUBMITTED, LATER, STATUSES, OF_BATCH = unpack(KEYS, 1, 15)
local CONVERSATION, CONVERSATIONS, ACTIVITY = unpack(KEYS, 16, 18)
local id, phone, session_id = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms()
local priority, sequence, due_at, accepted_at, reference, batch, status, known_phone, known_session, deferred =
  unpack(redis.call('HMGET', MESSAGE, 'priority', 'sequence', 'due_at', 'accepted_at', 'reference', 'batch', 'status', 'phone', 'session', 'deferred'))
-- remove_job: whether the message was still a job; another dispatcher may have routed it.
local function remove_job()
  if redis.call('LREM', JOBS, 1, id) == 0 then return false end
  -- One with a due instant is counted by the later zset.
  if tonumber(due_at or 0) == 0 and redis.call('HINCRBY', WAITING, phone, -1) <= 0 then redis.call('HDEL', WAITING, phone) end
  return true
end
-- Another dispatcher may have given it to another phone since the caller read it.
if known_phone ~= phone then return { 'gone' } end -- guard: route_place
-- A message that was tried before it was rerouted may turn out to have arrived: it must not be sent again.
if status ~= 'queued' then remove_job() return { 'gone' } end -- guard: route_waiting
if redis.call('EXISTS', SESSION) == 0 then return { 'no_session' } end -- guard: session_exists
if not remove_job() then return { 'gone' } end -- guard: one_router
if known_session ~= session_id then remove_status(STATUSES, known_session, status, accepted_at, id) end
add_status(STATUSES, session_id, status, accepted_at, id)
redis.call('HSET', MESSAGE, 'session', session_id)
for _, index in ipairs({ INDEX, OF_SESSION, OF_RECIPIENT }) do redis.call('ZADD', index, accepted_at, id) end
if reference and reference ~= '' then redis.call('ZADD', OF_REFERENCE, accepted_at, id) end
if batch and batch ~= '' then redis.call('ZADD', OF_BATCH, accepted_at, id) end
-- A conversation begins when the contact writes; people who only get messages have none.
local last_at = redis.call('HGET', CONVERSATION, 'last_at')
if last_at and tonumber(accepted_at) >= tonumber(last_at) then -- guard: newest_is_last
  leave_index(CONVERSATIONS, CONVERSATION)
  redis.call('HSET', CONVERSATION, 'last_at', accepted_at, 'last_message', id)
  enter_index(CONVERSATIONS, CONVERSATION)
  note_device(CONVERSATION, session_id)
  redis.call('ZADD', ACTIVITY, accepted_at, table.concat(redis.call('HMGET', CONVERSATION, 'session', 'contact'), ' '))
  -- What a client wants sent later becomes an answer when it is due (promote_message).
  local is_later = tonumber(due_at or 0) > now and (deferred or '') == ''
  if not is_later then answer(CONVERSATIONS, CONVERSATION, MESSAGE, id) end -- guard: answers
end
-- The messages submitted to a phone within the last minute, for mark_burst.
redis.call('ZREMRANGEBYSCORE', SUBMITTED, '-inf', accepted_at - 60000)
redis.call('ZADD', SUBMITTED, accepted_at, id)
redis.call('PEXPIRE', SUBMITTED, 60000)
local due = tonumber(due_at or 0)
if due > now then
  -- A deferred one is in the queue before the hours begin, or what was accepted since would leave before it.
  local joins_at = due
  if deferred == '1' then joins_at = due - 60000 end -- guard: deferred_in_time
  redis.call('ZADD', SCHEDULED, joins_at, id)
  redis.call('ZADD', LATER, due, id)
  return { 'scheduled', due }
end
redis.call('ZREM', LATER, id)
if due > 0 then redis.call('HSET', MESSAGE, 'due_at', 0) end
local score = tonumber(priority) * 1e15 + tonumber(sequence)
redis.call('ZADD', QUEUE, score, id)
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
return { 'queued', score }
