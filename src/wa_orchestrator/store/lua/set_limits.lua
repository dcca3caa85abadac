-- uses: _changed
-- uses: _wake
-- set_limits: write a session's own limits or time zone, or delete them, and wake its phone, which may wait by the old ones.
-- Atomic because the session may be removed at the same moment, and a phone that nobody wakes would wait too long.
-- KEYS[1] session hash  KEYS[2] due zset  KEYS[3] changed zset  ARGV[1] field, 'limits' or 'timezone'  ARGV[2] value ('' = none of its own)
-- returns {'set'} | {'unknown'}
local SESSION, DUE, CHANGED, field, value = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
if redis.call('EXISTS', SESSION) == 0 then return { 'unknown' } end -- guard: limits_exist
if value == '' then redis.call('HDEL', SESSION, field) else redis.call('HSET', SESSION, field, value) end
mark_changed(CHANGED, SESSION, now_ms())
local phone = redis.call('HGET', SESSION, 'phone') or ''
if phone ~= '' then wake_phones(DUE, cjson.encode({ phone }), now_ms()) end -- guard: limits_wake
return { 'set' }
