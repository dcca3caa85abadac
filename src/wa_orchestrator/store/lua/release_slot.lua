-- release_slot: the worker that spoke through the proxy a session has left is gone: that slot is free.
-- Atomic because the session may have come back to that very proxy.
-- KEYS[1] session hash  KEYS[2] sessions of the proxy it left  ARGV[1] session id  ARGV[2] that proxy as seen
-- returns {'released'} | {'kept'}
local known = redis.call('HMGET', KEYS[1], 'leaving', 'proxy')
if known[1] ~= ARGV[2] then return { 'kept' } end -- guard: release_slot_seen
redis.call('HDEL', KEYS[1], 'leaving')
if known[2] == ARGV[2] then return { 'kept' } end -- guard: release_slot_back
redis.call('SREM', KEYS[2], ARGV[1])
return { 'released' }
