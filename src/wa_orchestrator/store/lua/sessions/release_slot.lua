-- release_slot: free the slot on the proxy that a session has left, once the worker that used it is gone.
-- Atomic because the session may have returned to that very proxy.
-- KEYS[1] session hash  KEYS[2] sessions of the proxy it left  ARGV[1] session id  ARGV[2] that proxy as seen
-- returns {'released'} | {'kept'}
local SESSION, OF_LEFT_PROXY = KEYS[1], KEYS[2]
local id, seen = ARGV[1], ARGV[2]
local leaving, proxy = unpack(redis.call('HMGET', SESSION, 'leaving', 'proxy'))
if leaving ~= seen then return { 'kept' } end -- guard: release_slot_seen
redis.call('HDEL', SESSION, 'leaving')
if proxy == seen then return { 'kept' } end -- guard: release_slot_back
redis.call('SREM', OF_LEFT_PROXY, id)
return { 'released' }
