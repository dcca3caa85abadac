-- clear_left_phone: what waited for a session at phones it has left is seen to: the mark of it goes.
-- Atomic because the session may have left another phone meanwhile: that one's mark must stay.
-- KEYS[1] session hash  ARGV[1] the mark as seen
-- returns {'cleared'} | {'kept'}
if redis.call('HGET', KEYS[1], 'left_phone') ~= ARGV[1] then return { 'kept' } end -- guard: taken_along_seen
redis.call('HDEL', KEYS[1], 'left_phone')
return { 'cleared' }
