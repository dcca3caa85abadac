-- uses: _rate
-- spend_rate: how often one key may call.
-- Atomic because parallel requests of one key must not all see the same room.
-- KEYS[1] theoretical arrival time  ARGV[1] ms between two calls  ARGV[2] burst: calls that may come at once  ARGV[3] cost in calls
-- returns {'allowed', calls left} | {'limited', retry after ms}
local now = now_ms()
local gap, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local after, wait = spend(tonumber(redis.call('GET', KEYS[1]) or 0), now, gap, burst, tonumber(ARGV[3]))
if not after then return { 'limited', wait } end
keep_rate(KEYS[1], after, now)
return { 'allowed', math.floor((now + gap * burst - after) / gap) }
