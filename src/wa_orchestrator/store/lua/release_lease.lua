-- release_lease: give a job back, if one still holds it.
-- Atomic because the lease may have gone to another in between.
-- KEYS[1] lease  ARGV[1] value as held
-- returns {'released'} | {'not_held'}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 'not_held' } end -- guard: lease_owner
redis.call('DEL', KEYS[1])
return { 'released' }
