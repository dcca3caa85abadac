-- uses: _removal
-- remove_archived_message: delete a message whose copy is in the archive, if it is still as it was copied.
-- Atomic because a receipt or a retry may change it after it was copied: then it stays, and is copied again.
-- KEYS: the removal layout
-- ARGV[1] id  ARGV[2] the instant it ended, as copied  ARGV[3] lines of the timeline, as copied  ARGV[4…] fields and values, as copied
-- returns {'removed'} | {'changed'} | {'gone'}
local FIRST_FIELD = 4
local id, copied_end, copied_lines = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('EXISTS', MESSAGE) == 0 then
  redis.call('ZREM', ENDED, id)
  return { 'gone' }
end
local ended = tonumber(redis.call('ZSCORE', ENDED, id) or -1)
if ended ~= copied_end or redis.call('LLEN', TIMELINE) ~= copied_lines then return { 'changed' } end -- guard: copied_end
if redis.call('HLEN', MESSAGE) ~= (#ARGV - FIRST_FIELD + 1) / 2 then return { 'changed' } end -- guard: copied_whole
for at = FIRST_FIELD, #ARGV, 2 do
  if redis.call('HGET', MESSAGE, ARGV[at]) ~= ARGV[at + 1] then return { 'changed' } end -- guard: copied_same
end
remove_message(id)
return { 'removed' }
