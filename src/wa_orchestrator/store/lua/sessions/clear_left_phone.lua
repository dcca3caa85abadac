-- clear_left_phone: forget the phones that a session has left, once the messages that waited there are rerouted.
-- Atomic because the session may have left another phone meanwhile, which must stay recorded.
-- KEYS[1] session hash  ARGV[1] the phones as seen
-- returns {'cleared'} | {'kept'}
local SESSION, seen = KEYS[1], ARGV[1]
if redis.call('HGET', SESSION, 'left_phone') ~= seen then return { 'kept' } end -- guard: left_phone_seen
redis.call('HDEL', SESSION, 'left_phone')
return { 'cleared' }
