-- uses: _changed
-- uses: _tag_limits
-- uses: _wake
-- change_session: write what an operator chose for a session (label, tags, limits, time zone …), and wake its phone, which may wait by what held before.
-- Atomic because the session may be removed at the same moment, and a phone that nobody wakes would wait too long.
-- KEYS[1] session hash  KEYS[2] due zset  KEYS[3] changed zset  KEYS[4] tag limits hash  ARGV[1…] fields and values ('' = none of its own)
-- returns {'set'} | {'unknown'}
local SESSION, DUE, CHANGED, TAG_LIMITS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('EXISTS', SESSION) == 0 then return { 'unknown' } end -- guard: limits_exist
for index = 1, #ARGV, 2 do
  local field, value = ARGV[index], ARGV[index + 1]
  if value == '' then redis.call('HDEL', SESSION, field) else redis.call('HSET', SESSION, field, value) end -- guard: limits_none
end
write_tag_limits(SESSION, TAG_LIMITS) -- its tags may be others now
mark_changed(CHANGED, SESSION, now_ms())
local phone = redis.call('HGET', SESSION, 'phone') or ''
if phone ~= '' then wake_phones(DUE, cjson.encode({ phone }), now_ms()) end -- guard: limits_wake
return { 'set' }
