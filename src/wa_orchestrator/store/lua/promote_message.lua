-- promote_message: a scheduled message's time has come; it joins its phone's queue behind those that are due already.
-- Atomic because leaving the schedule and entering the queue must be one step, whoever does it first.
-- KEYS[1] scheduled zset  KEYS[2] message hash  KEYS[3] queue zset  KEYS[4] due zset  KEYS[5] sequence
-- ARGV[1] id  ARGV[2] phone
-- returns {'queued'} | {'early', due} | {'gone'}
local now = now_ms()
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not due then return { 'gone' } end -- guard: still_scheduled
if tonumber(due) > now then return { 'early', tonumber(due) } end -- guard: not_early
if redis.call('HGET', KEYS[2], 'phone') ~= ARGV[2] then return { 'gone' } end -- guard: promote_place
redis.call('ZREM', KEYS[1], ARGV[1])
local sequence = redis.call('INCR', KEYS[5])
redis.call('HSET', KEYS[2], 'sequence', sequence, 'due_at', 0)
redis.call('ZADD', KEYS[3], tonumber(redis.call('HGET', KEYS[2], 'priority')) * 1e15 + sequence, ARGV[1])
redis.call('ZADD', KEYS[4], 'LT', now, ARGV[2])
redis.call('PUBLISH', 'dispatch:wake', ARGV[2])
return { 'queued' }
