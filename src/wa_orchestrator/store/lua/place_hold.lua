-- uses: _event
-- uses: _deadline
-- place_hold: pause everything, a group, a session or a phone, and tell it. Holds that are over are forgotten on the way, so that they do not pile up.
-- Atomic because a second ban signal must not shorten what the first has said, and the news is told once.
-- KEYS[1] holds hash  KEYS[2] events stream
-- ARGV[1] field  ARGV[2] until ms (9e15 = until lifted)  ARGV[3] record as JSON  ARGV[4] 'person' = whatever was, 'signal' = only if it lasts longer
-- ARGV[5…] further fields and values of the event
-- returns {'held'} | {'kept'}
local now, ends = now_ms(), tonumber(ARGV[2])
local known = redis.call('HGETALL', KEYS[1])
for index = 1, #known, 2 do
  local known_until = cjson.decode(known[index + 1]).until_ms
  if ARGV[4] == 'signal' and known[index] == ARGV[1] and known_until >= ends then return { 'kept' } end -- guard: longer_hold
  if known_until <= now then redis.call('HDEL', KEYS[1], known[index]) end -- guard: hold_over
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
emit(KEYS[2], 'hold.placed', now, 'until', told_until(ends), unpack(ARGV, 5))
return { 'held' }
