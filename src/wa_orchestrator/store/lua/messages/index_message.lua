-- uses: _statuses
-- index_message: add a message of an earlier version to the indexes that came later: by status, and of its phone if it is not due yet.
-- Atomic because the message may change its status or be promoted at the same moment.
-- KEYS[1] message hash  KEYS[2] statuses zset  KEYS[3] scheduled zset  KEYS[4] later zset
-- ARGV[1] id  ARGV[2] its phone as the caller saw it
-- returns {'indexed'} | {'gone'}
local MESSAGE, STATUSES, SCHEDULED, LATER = unpack(KEYS)
local id, phone = ARGV[1], ARGV[2]
local session_id, status, accepted_at, known_phone = unpack(redis.call('HMGET', MESSAGE, 'session', 'status', 'accepted_at', 'phone'))
if known_phone ~= phone then return { 'gone' } end -- guard: index_place
add_status(STATUSES, session_id, status, accepted_at, id)
local due = redis.call('ZSCORE', SCHEDULED, id)
if due then redis.call('ZADD', LATER, due, id) end
return { 'indexed' }
