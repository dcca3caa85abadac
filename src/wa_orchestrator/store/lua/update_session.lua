-- update_session: write down something about a session that changes no state of it: a ping, a mark, its limits.
-- Atomic because it may be removed at this moment: its record must not come back with nothing but the note.
-- KEYS[1] session hash  ARGV[1…] fields and values
-- returns {'noted'} | {'unknown'}
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'unknown' } end -- guard: note_exists
redis.call('HSET', KEYS[1], unpack(ARGV))
return { 'noted' }
