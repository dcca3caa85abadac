-- record_drift: count a part of the protocol that a session's worker does not know, once for each report.
-- Atomic because many sessions meet the same at the same time, and the first of them says since when.
-- KEYS[1] zset of shapes  KEYS[2] hash of this shape  KEYS[3] set of its sessions
-- ARGV[1] shape  ARGV[2] session id  ARGV[3] count  ARGV[4] ms to keep it  ARGV[5] most shapes
-- returns {'new'} | {'known'} | {'full'}
local SHAPES, SHAPE, SESSIONS = unpack(KEYS)
local shape, session_id, count, keep_ms, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', SHAPES, '-inf', now - keep_ms)
local is_new = redis.call('ZSCORE', SHAPES, shape) == false
if is_new and redis.call('ZCARD', SHAPES) >= most then return { 'full' } end -- guard: drift_full
if is_new then redis.call('DEL', SHAPE, SESSIONS) end
redis.call('ZADD', SHAPES, now, shape)
redis.call('HSETNX', SHAPE, 'first_at', now)
redis.call('HSET', SHAPE, 'last_at', now)
redis.call('HINCRBY', SHAPE, 'count', count)
redis.call('SADD', SESSIONS, session_id)
for _, key in ipairs({ SHAPES, SHAPE, SESSIONS }) do redis.call('PEXPIRE', key, keep_ms) end
return { is_new and 'new' or 'known' }
