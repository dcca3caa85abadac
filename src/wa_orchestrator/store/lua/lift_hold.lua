-- uses: _event
-- lift_hold: end a hold and append the event.
-- Atomic because two people may lift it, and the event is written once.
-- KEYS[1] holds hash  KEYS[2] events stream  ARGV[1] field  ARGV[2…] further fields and values of the event
-- returns {'lifted'} | {'none'}
local HOLDS, EVENTS, field = KEYS[1], KEYS[2], ARGV[1]
if redis.call('HDEL', HOLDS, field) == 0 then return { 'none' } end -- guard: lift_once
emit(EVENTS, 'hold.lifted', now_ms(), unpack(ARGV, 2))
return { 'lifted' }
