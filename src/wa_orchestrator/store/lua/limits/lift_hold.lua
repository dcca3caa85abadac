-- uses: _event
-- uses: _wake
-- lift_hold: end a hold, wake the phones that it kept silent, and append the event. If it was lifted before, the phones are woken all the same.
-- Atomic because a phone whose hold is gone and which nobody wakes would stay silent; and the event is written once.
-- KEYS[1] holds hash  KEYS[2] events stream  KEYS[3] due zset
-- ARGV[1] field  ARGV[2] phones to wake as a JSON array  ARGV[3] the record that is to be lifted ('none' = there is none, '' = whichever)
-- ARGV[4…] further fields and values of the event
-- returns {'lifted'} | {'none'} | {'changed'}: another hold is there
local HOLDS, EVENTS, DUE, field, expected = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[3]
if expected ~= '' and (redis.call('HGET', HOLDS, field) or 'none') ~= expected then return { 'changed' } end -- guard: lifted_hold
local now = now_ms()
wake_phones(DUE, ARGV[2], now)
if redis.call('HDEL', HOLDS, field) == 0 then return { 'none' } end -- guard: lift_once
emit(EVENTS, 'hold.lifted', now, unpack(ARGV, 4))
return { 'lifted' }
