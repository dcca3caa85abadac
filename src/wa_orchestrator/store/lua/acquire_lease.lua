-- acquire_lease: become, or stay, the one who does a job. The fencing number rises with every new holder, never on renewal.
-- Atomic because two candidates may ask in the same instant.
-- KEYS[1] lease  KEYS[2] counter of fencing numbers  ARGV[1] owner  ARGV[2] lease ms
-- returns {'held', value} | {'taken', value, ms left}
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1] + 1) ~= ARGV[1] .. ' ' then return { 'taken', value, redis.call('PTTL', KEYS[1]) } end -- guard: lease_free
if not value then value = ARGV[1] .. ' ' .. redis.call('INCR', KEYS[2]) end
redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
return { 'held', value }
