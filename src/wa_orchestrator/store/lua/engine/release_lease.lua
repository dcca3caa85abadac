-- release_lease: give a lease back, if the caller still holds it.
-- Atomic because the lease may have a new holder in between.
-- KEYS[1] lease  ARGV[1] value as held
-- returns {'released'} | {'not_held'}
local LEASE, held = KEYS[1], ARGV[1]
if redis.call('GET', LEASE) ~= held then return { 'not_held' } end -- guard: lease_owner
redis.call('DEL', LEASE)
return { 'released' }
