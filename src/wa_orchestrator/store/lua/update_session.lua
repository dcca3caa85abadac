-- update_session: write fields of a session that change no state: a ping, a mark.
-- Atomic because the session may be removed at the same moment: its record must not come back with nothing but these fields.
-- KEYS[1] session hash  ARGV[1…] fields and values
-- returns {'noted'} | {'unknown'}
local SESSION = KEYS[1]
if redis.call('EXISTS', SESSION) == 0 then return { 'unknown' } end -- guard: note_exists
redis.call('HSET', SESSION, unpack(ARGV))
return { 'noted' }
