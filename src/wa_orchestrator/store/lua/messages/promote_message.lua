-- uses: _answer
-- promote_message: move a scheduled message that is due into its phone's queue, behind those that were due before. One that the
-- daily limit has deferred takes the turn of its acceptance: its recipient must not get it after what was accepted later.
-- Atomic because leaving the schedule and entering the queue must be one step: several dispatchers promote.
-- KEYS[1] scheduled zset  KEYS[2] message hash  KEYS[3] queue zset  KEYS[4] due zset  KEYS[5] sequence  KEYS[6] later zset
-- KEYS[7] hash of the conversation, if there is one  KEYS[8] index of conversations
-- ARGV[1] id  ARGV[2] phone
-- returns {'queued'} | {'early', due} | {'gone'}
local SCHEDULED, MESSAGE, QUEUE, DUE, SEQUENCE, LATER, CONVERSATION, CONVERSATIONS = unpack(KEYS)
local id, phone = ARGV[1], ARGV[2]
local now = now_ms()
local due = redis.call('ZSCORE', SCHEDULED, id)
if not due then return { 'gone' } end -- guard: still_scheduled
if tonumber(due) > now then return { 'early', tonumber(due) } end -- guard: not_early
if redis.call('HGET', MESSAGE, 'phone') ~= phone then return { 'gone' } end -- guard: promote_place
redis.call('ZREM', SCHEDULED, id)
redis.call('ZREM', LATER, id)
local priority, deferred, sequence = unpack(redis.call('HMGET', MESSAGE, 'priority', 'deferred', 'sequence'))
local keeps_turn = false
if deferred == '1' then keeps_turn = true end -- guard: deferred_turn
if not keeps_turn then sequence = redis.call('INCR', SEQUENCE) end
redis.call('HSET', MESSAGE, 'sequence', sequence, 'due_at', 0)
redis.call('ZADD', QUEUE, tonumber(priority) * 1e15 + tonumber(sequence), id)
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
-- It was written before whatever came in since, and answers only what came before it.
local accepted_at, last_in_at = redis.call('HGET', MESSAGE, 'accepted_at'), redis.call('HGET', CONVERSATION, 'last_in_at')
local is_newer = tonumber(accepted_at or 0) >= tonumber(last_in_at or 0)
if is_newer then answer(CONVERSATIONS, CONVERSATION, MESSAGE, id) end -- guard: answers_when_due
return { 'queued' }
