-- acquire_lease: become, or stay, the holder of a lease. The fencing number rises with every new holder, never on renewal.
-- Atomic because two candidates may ask in the same instant.
-- KEYS[1] lease  KEYS[2] counter of fencing numbers  ARGV[1] owner  ARGV[2] lease ms
-- returns {'held', value} | {'taken', value, ms left}
local LEASE, FENCE = KEYS[1], KEYS[2]
local owner, lease_ms = ARGV[1], ARGV[2]
local value = redis.call('GET', LEASE)
local is_taken = value and string.sub(value, 1, #owner + 1) ~= owner .. ' '
-- Longer than a lease: the clock was set back. If its holder lives, it renews it; if not, it ends as any other.
if is_taken and redis.call('PTTL', LEASE) > tonumber(lease_ms) then redis.call('PEXPIRE', LEASE, lease_ms) end -- guard: lease_length
if is_taken then return { 'taken', value, redis.call('PTTL', LEASE) } end -- guard: lease_free
if not value then value = owner .. ' ' .. redis.call('INCR', FENCE) end
redis.call('SET', LEASE, value, 'PX', lease_ms)
return { 'held', value }
