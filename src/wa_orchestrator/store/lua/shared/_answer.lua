-- uses: _conversation_index
-- Answers: a message of ours that was accepted after the contact wrote. An answer means that everything was read.

-- answer: nobody waits in this conversation any more. What was unread is kept beside the answer, for wait_again. A message of a
-- campaign or a batch goes to many and answers nobody.
local function answer(index, conversation, message, id)
  local unread, since = unpack(redis.call('HMGET', conversation, 'unread', 'waiting_since'))
  if tonumber(unread or 0) == 0 then return end -- guard: first_answer
  if (redis.call('HGET', message, 'batch') or '') ~= '' then return end -- guard: batch_answers_nobody
  leave_index(index, conversation)
  redis.call('HSET', conversation, 'unread', 0, 'waiting_since', 0, 'answer', id, 'answered_unread', unread, 'answered_since', since or 0)
  -- wait_again finds it by this when the message has another sender by then.
  redis.call('HSET', message, 'answers_in', table.concat(redis.call('HMGET', conversation, 'session', 'contact'), ' ')) -- guard: answers_in
  enter_index(index, conversation)
end

-- wait_again: the answer ended without being sent, so what it answered is unread again, beside what came since.
local function wait_again(index, conversation, id)
  local answered_by, unread, since = unpack(redis.call('HMGET', conversation, 'answer', 'answered_unread', 'answered_since'))
  if answered_by ~= id then return end -- guard: own_answer
  leave_index(index, conversation)
  redis.call('HINCRBY', conversation, 'unread', unread)
  redis.call('HSET', conversation, 'waiting_since', since)
  redis.call('HDEL', conversation, 'answer', 'answered_unread', 'answered_since')
  enter_index(index, conversation)
end
