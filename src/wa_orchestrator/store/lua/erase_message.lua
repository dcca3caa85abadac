-- uses: _statuses
-- erase_message: delete a message that ended long ago, with its timeline and its index entries.
-- Atomic because it may be retried at the same moment: then it must stay whole.
-- KEYS[1] message hash  KEYS[2] timeline list  KEYS[3] ended zset  KEYS[4] dead zset  KEYS[5] index zset
-- KEYS[6] index of the session  KEYS[7] index of the recipient  KEYS[8] index of the reference  KEYS[9] index of the batch
-- KEYS[10] statuses zset
-- ARGV[1] id  ARGV[2] ended at or before ms
-- returns {'erased'} | {'kept'}
local MESSAGE, TIMELINE, ENDED, STATUSES = KEYS[1], KEYS[2], KEYS[3], KEYS[10]
local id, until_ms = ARGV[1], tonumber(ARGV[2])
local ended = redis.call('ZSCORE', ENDED, id)
if not ended or tonumber(ended) > until_ms then return { 'kept' } end -- guard: ended_long_ago
local session_id, status, accepted_at = unpack(redis.call('HMGET', MESSAGE, 'session', 'status', 'accepted_at'))
if status then remove_status(STATUSES, session_id, status, accepted_at, id) end
redis.call('DEL', MESSAGE, TIMELINE)
for index = 3, 9 do redis.call('ZREM', KEYS[index], id) end
return { 'erased' }
