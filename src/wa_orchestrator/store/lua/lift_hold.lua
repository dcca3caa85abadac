-- uses: _event
-- lift_hold: end a hold, and tell it.
-- Atomic because two people may lift it, and the news is told once.
-- KEYS[1] holds hash  KEYS[2] events stream  ARGV[1] field  ARGV[2…] further fields and values of the event
-- returns {'lifted'} | {'none'}
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return { 'none' } end -- guard: lift_once
emit(KEYS[2], 'hold.lifted', now_ms(), unpack(ARGV, 2))
return { 'lifted' }
