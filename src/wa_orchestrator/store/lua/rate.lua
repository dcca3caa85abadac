-- rate: the generic cell rate algorithm; how often one key may call.
-- Atomic because parallel requests of one key must not all see the same room.
-- KEYS[1] theoretical arrival time  ARGV[1] ms between two calls  ARGV[2] burst: calls that may come at once  ARGV[3] cost in calls
-- returns {'allowed', calls left} | {'limited', retry after ms}
local now = now_ms()
local gap, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local after = arrival + gap * cost
local allow_at = after - gap * burst
if allow_at > now then return { 'limited', math.ceil(allow_at - now) } end -- guard: rate
redis.call('SET', KEYS[1], string.format('%.3f', after), 'PX', math.ceil(after - now))
return { 'allowed', math.floor((now + gap * burst - after) / gap) }
