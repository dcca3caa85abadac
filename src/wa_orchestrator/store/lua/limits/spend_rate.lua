-- uses: _rate
-- spend_rate: count calls of one API key against its rate.
-- Atomic because parallel requests of one key must not all see the same room.
-- KEYS[1] theoretical arrival time  ARGV[1] ms between two calls  ARGV[2] burst: calls that may come at once  ARGV[3] cost in calls
-- returns {'allowed', calls left} | {'limited', retry after ms}
local ARRIVAL = KEYS[1]
local gap, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local after, wait = spend(tonumber(redis.call('GET', ARRIVAL) or 0), now, gap, burst, cost)
if not after then return { 'limited', wait } end
set_arrival(ARRIVAL, after, now)
return { 'allowed', math.floor((now + gap * burst - after) / gap) }
