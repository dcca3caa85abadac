-- settle_campaign_row: record that the message of a recipient has another status.
-- Atomic because the counts must sum up to all recipients whatever happens.
-- KEYS[1] outcomes hash  KEYS[2] counts hash  KEYS[3] queued set  KEYS[4] open set
-- ARGV[1] row  ARGV[2] message id  ARGV[3] status  ARGV[4] session id  ARGV[5] instant ms  ARGV[6] queued | open | final: where the row is now
-- returns {'settled'} | {'same'} | {'other'}
local OUTCOMES, COUNTS, QUEUED, OPEN = unpack(KEYS)
local row, message, status, session, at, place = unpack(ARGV)
local before, known = string.match(redis.call('HGET', OUTCOMES, row) or '', '^(%S+) (%S*) ')
if known ~= message then return { 'other' } end -- guard: campaign_message
if place ~= 'queued' then redis.call('SREM', QUEUED, row) end
if place == 'open' then redis.call('SADD', OPEN, row) end
if place == 'final' then redis.call('SREM', OPEN, row) end
if before == status then return { 'same' } end -- guard: campaign_counted_once
redis.call('HSET', OUTCOMES, row, table.concat({ status, message, session, at }, ' '))
redis.call('HINCRBY', COUNTS, before, -1)
redis.call('HINCRBY', COUNTS, status, 1)
return { 'settled' }
