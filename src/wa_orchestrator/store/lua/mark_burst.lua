-- uses: _event
-- mark_burst: mark a phone to which far more was submitted within a minute than it may say; its pauses double for a while.
-- Atomic because several dispatchers route at once and the alert must go out once.
-- KEYS[1] pace hash  KEYS[2] events stream
-- ARGV[1] phone  ARGV[2] session id  ARGV[3] how many were submitted  ARGV[4] how long pauses stay doubled ms
-- returns {'already', until ms} | {'burst', until ms}
local now = now_ms()
local known = tonumber(redis.call('HGET', KEYS[1], 'burst_until') or 0)
if known > now then return { 'already', known } end -- guard: burst_once
local ends = now + tonumber(ARGV[4])
redis.call('HSET', KEYS[1], 'burst_until', ends)
emit(KEYS[2], 'session.burst', now, 'session', ARGV[2], 'phone', ARGV[1], 'count', ARGV[3], 'until', string.format('%.0f', ends))
return { 'burst', ends }
