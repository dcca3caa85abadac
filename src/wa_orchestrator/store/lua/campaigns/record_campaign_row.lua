-- record_campaign_row: take a recipient of a campaign off those who wait: the message was accepted, or cannot be sent to them.
-- Atomic because every recipient must either wait or be counted, never both or neither.
-- KEYS[1] waiting zset  KEYS[2] outcomes hash  KEYS[3] counts hash  KEYS[4] queued set
-- ARGV[1] row  ARGV[2] status  ARGV[3] message id ('' = none)  ARGV[4] session id
-- returns {'recorded'} | {'already'}
local WAITING, OUTCOMES, COUNTS, QUEUED = unpack(KEYS)
local row, status, message, session = unpack(ARGV)
if redis.call('ZREM', WAITING, row) == 0 then return { 'already' } end -- guard: campaign_row_once
redis.call('HSET', OUTCOMES, row, table.concat({ status, message, session, now_ms() }, ' '))
redis.call('HINCRBY', COUNTS, status, 1)
if message ~= '' then redis.call('SADD', QUEUED, row) end
return { 'recorded' }
