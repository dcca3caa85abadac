-- uses: _message
-- uses: _answer
-- retry_message: return a dead letter to the end of its queue, with the same WhatsApp id and its attempts reset.
-- Atomic because two people may press the button.
-- KEYS: the message layout, then KEYS[17] sequence  KEYS[18] opt-outs hash
-- KEYS[19] hash of the conversation, if there is one  KEYS[20] index of conversations
-- ARGV[4] recipient  ARGV[5…] the reasons after which another attempt may leave from another phone
-- returns {'queued'} | {'too_late', status} | {'must_end', reason}
local SEQUENCE, OPT_OUTS, CONVERSATION, CONVERSATIONS = unpack(KEYS, 17, 20)
local recipient = ARGV[4]
local FIRST_REASON = 5
local now = now_ms()
local status, priority, reason = unpack(redis.call('HMGET', MESSAGE, 'status', 'priority', 'reason'))
if status ~= 'failed' and status ~= 'unknown' then return { 'too_late', status or 'unknown' } end -- guard: dead
if has_opted_out(OPT_OUTS, recipient) then return { 'must_end', 'OPTED_OUT' } end -- guard: retry_opt_out
local sequence = redis.call('INCR', SEQUENCE)
redis.call('HSET', MESSAGE, 'attempts', 0, 'crashes', 0, 'uncounted', 0, 'sequence', sequence, 'expires_at', 0, 'due_at', 0)
redis.call('HDEL', MESSAGE, 'refusal_heard') -- what was heard of an earlier attempt says nothing about the next one
for index = FIRST_REASON, #ARGV do
  if reason == ARGV[index] then redis.call('HSET', MESSAGE, 'freed', '1') end -- guard: retry_told
end
redis.call('ZREM', DEAD, ID)
redis.call('ZADD', QUEUE, tonumber(priority) * 1e15 + sequence, ID)
set_status('queued', now, 'RETRIED')
wake_phone(now)
local is_last = redis.call('HGET', CONVERSATION, 'last_message') == ID
if is_last then answer(CONVERSATIONS, CONVERSATION, MESSAGE, ID) end -- guard: answers_again
return { 'queued' }
