-- uses: _event
-- mark_burst: mark a phone that was given far more messages within a minute than it may send; its pauses double for a while.
-- Atomic because several dispatchers route at once and the alert must go out once.
-- KEYS[1] pace hash  KEYS[2] events stream
-- ARGV[1] phone  ARGV[2] session id  ARGV[3] how many were submitted  ARGV[4] how long pauses stay doubled ms
-- returns {'already', until ms} | {'burst', until ms}
local PACE, EVENTS = KEYS[1], KEYS[2]
local phone, session_id, count, burst_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local now = now_ms()
local known = tonumber(redis.call('HGET', PACE, 'burst_until') or 0)
if known > now then return { 'already', known } end -- guard: burst_once
local ends = now + burst_ms
redis.call('HSET', PACE, 'burst_until', ends)
emit(EVENTS, 'session.burst', now, 'session', session_id, 'phone', phone, 'count', count, 'until', string.format('%.0f', ends))
return { 'burst', ends }
