-- uses: _removal
-- erase_message: delete a message that ended long ago, with its timeline and its index entries.
-- Atomic because it may be retried at the same moment: then it must stay whole.
-- KEYS: the removal layout
-- ARGV[1] id  ARGV[2] ended at or before ms
-- returns {'erased'} | {'kept'}
local id, until_ms = ARGV[1], tonumber(ARGV[2])
local ended = redis.call('ZSCORE', ENDED, id)
if not ended or tonumber(ended) > until_ms then return { 'kept' } end -- guard: ended_long_ago
remove_message(id)
return { 'erased' }
