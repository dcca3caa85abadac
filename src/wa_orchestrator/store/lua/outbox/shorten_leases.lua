-- shorten_leases: end leases that last longer than a lease can, because the clock was set back. Their holders renew them if they live.
-- Atomic because a holder may renew at the same moment.
-- KEYS[1] leases zset  ARGV[1] the longest lease ms
-- returns {'shortened'} | {'none'}
local LEASES, longest_ms = KEYS[1], tonumber(ARGV[1])
local latest = now_ms() + longest_ms
local too_long = redis.call('ZRANGEBYSCORE', LEASES, '(' .. string.format('%.0f', latest), '+inf')
for _, id in ipairs(too_long) do redis.call('ZADD', LEASES, latest, id) end
return { #too_long > 0 and 'shortened' or 'none' }
