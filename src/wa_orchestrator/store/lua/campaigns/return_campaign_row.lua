-- return_campaign_row: let a recipient wait again whose message was cancelled before it left; the next message has another id.
-- Atomic because a recipient who is in neither list is never written to, and one who is in both is written to twice.
-- KEYS[1] waiting zset  KEYS[2] outcomes hash  KEYS[3] counts hash  KEYS[4] queued set  KEYS[5] attempts hash
-- ARGV[1] row  ARGV[2] message id
-- returns {'returned'} | {'other'}
local WAITING, OUTCOMES, COUNTS, QUEUED, ATTEMPTS = unpack(KEYS)
local row, message = ARGV[1], ARGV[2]
local before, known = string.match(redis.call('HGET', OUTCOMES, row) or '', '^(%S+) (%S*) ')
if known ~= message then return { 'other' } end -- guard: campaign_taken_back
redis.call('HDEL', OUTCOMES, row)
redis.call('HINCRBY', COUNTS, before, -1)
redis.call('SREM', QUEUED, row)
redis.call('HINCRBY', ATTEMPTS, row, 1)
redis.call('ZADD', WAITING, row, row)
return { 'returned' }
