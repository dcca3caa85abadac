-- uses: _clock
-- uses: _event
-- report_call: somebody calls one of our phones, or the call has ended. Append the event once.
-- Atomic because a worker repeats its events until they are accepted.
-- KEYS[1] string, that this was reported  KEYS[2] events stream
-- ARGV[1] type of the event  ARGV[2] ms to remember it  ARGV[3…] fields and values of the event
-- returns {'reported'} | {'already'}
local REPORTED, EVENTS = KEYS[1], KEYS[2]
local call_type, remember_ms = ARGV[1], ARGV[2]
if not redis.call('SET', REPORTED, '1', 'NX', 'PX', remember_ms) then return { 'already' } end -- guard: call_once
emit(EVENTS, call_type, now_ms(), unpack(ARGV, 3))
return { 'reported' }
