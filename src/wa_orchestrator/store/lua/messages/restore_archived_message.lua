-- uses: _removal
-- restore_archived_message: bring a message back from the archive, because a late receipt or a retry is to change it.
-- Atomic because two reports may restore it at the same moment, and the one that comes second must not undo what the first led to.
-- KEYS: the removal layout
-- ARGV[1] id  ARGV[2] the instant it ended  ARGV[3] lines of the timeline  then the lines, then fields and values
-- returns {'restored'} | {'already'}
local FIRST_LINE = 4
local id, ended_at, lines = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('EXISTS', MESSAGE) == 1 then return { 'already' } end -- guard: restored_once
redis.call('HSET', MESSAGE, unpack(ARGV, FIRST_LINE + lines))
if lines > 0 then redis.call('RPUSH', TIMELINE, unpack(ARGV, FIRST_LINE, FIRST_LINE + lines - 1)) end
local session_id, status, accepted_at, reference, batch = unpack(redis.call('HMGET', MESSAGE, 'session', 'status', 'accepted_at', 'reference', 'batch'))
add_status(STATUSES, session_id, status, accepted_at, id)
redis.call('ZADD', ENDED, ended_at, id)
if status == 'failed' or status == 'unknown' then redis.call('ZADD', DEAD, ended_at, id) end
for _, index in ipairs({ INDEX, OF_SESSION, OF_RECIPIENT }) do redis.call('ZADD', index, accepted_at, id) end
if reference and reference ~= '' then redis.call('ZADD', OF_REFERENCE, accepted_at, id) end
if batch and batch ~= '' then redis.call('ZADD', OF_BATCH, accepted_at, id) end
return { 'restored' }
