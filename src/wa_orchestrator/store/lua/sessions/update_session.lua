-- uses: _changed
-- update_session: write fields of a session that change no state: a mark, a name.
-- Atomic because the session may be removed at the same moment: its record must not come back with nothing but these fields.
-- KEYS[1] session hash  KEYS[2] changed zset  ARGV[1…] fields and values
-- returns {'noted'} | {'unknown'}
local SESSION, CHANGED = KEYS[1], KEYS[2]
if redis.call('EXISTS', SESSION) == 0 then return { 'unknown' } end -- guard: note_exists
redis.call('HSET', SESSION, unpack(ARGV))
mark_changed(CHANGED, SESSION, now_ms())
return { 'noted' }
