-- uses: _event
-- uses: _notice
-- report_call: append the event of a call to one of our phones, or of its end, once, and note it in the conversation.
-- Atomic because a worker repeats its events until they are accepted.
-- KEYS[1] string, that this was reported  KEYS[2] events stream  KEYS[3] zset of notices of the conversation
-- ARGV[1] type of the event  ARGV[2] ms to remember it  ARGV[3] the notice ('' = none)  ARGV[4] ms to keep it
-- ARGV[5…] fields and values of the event
-- returns {'reported'} | {'already'}
local REPORTED, EVENTS, NOTICES = unpack(KEYS)
local call_type, remember_ms, notice, keep_ms = unpack(ARGV, 1, 4)
if not redis.call('SET', REPORTED, '1', 'NX', 'PX', remember_ms) then return { 'already' } end -- guard: call_once
local now = now_ms()
note_in_thread(NOTICES, notice, now, keep_ms)
emit(EVENTS, call_type, now, unpack(ARGV, 5))
return { 'reported' }
