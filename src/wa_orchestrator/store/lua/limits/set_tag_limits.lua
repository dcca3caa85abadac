-- uses: _changed
-- uses: _tag_limits
-- uses: _wake
-- set_tag_limits: write the limits of a tag, or delete them; every session with the tag gets its copy, and its phone is woken.
-- Atomic because a session that kept the old copy would go on sending by it, and a session may get the tag at the same moment.
-- KEYS[1] tag limits hash  KEYS[2] due zset  KEYS[3] changed zset  KEYS[4] all sessions  KEYS[5…] the session hashes
-- ARGV[1] tag  ARGV[2] its limits as JSON ('' = none)  ARGV[3…] ids of these sessions
-- returns {'set', sessions that changed} | {'changed'}
local LIMITS, DUE, CHANGED, ALL = unpack(KEYS, 1, 4)
local tag, limits, FIRST_SESSION, FIRST_ID = ARGV[1], ARGV[2], 5, 3
local now, sessions = now_ms(), #KEYS - 4
if redis.call('SCARD', ALL) ~= sessions then return { 'changed' } end -- guard: tag_sessions_counted
for index = FIRST_ID, #ARGV do
  if redis.call('SISMEMBER', ALL, ARGV[index]) == 0 then return { 'changed' } end -- guard: tag_sessions_known
end
if limits == '' then redis.call('HDEL', LIMITS, tag) else redis.call('HSET', LIMITS, tag, limits) end
local written = 0
for index = FIRST_SESSION, #KEYS do
  if write_tag_limits(KEYS[index], LIMITS) then
    written = written + 1
    mark_changed(CHANGED, KEYS[index], now)
    local phone = redis.call('HGET', KEYS[index], 'phone') or ''
    if phone ~= '' then wake_phones(DUE, cjson.encode({ phone }), now) end -- guard: tag_limits_wake
  end
end
return { 'set', written }
