-- sum_day_counts: compare the counts of all sessions together on a day with the sum of the sessions' own, and raise them to it.
-- They are counted one by one as messages are; the sum adds what an earlier version counted, which knew the sessions' own alone.
-- Never lowered: a session that was removed since is in no sum any more, and its messages were sent all the same.
-- Atomic because messages are counted meanwhile.
-- KEYS[1] stats hash of all sessions' day  KEYS[2...] stats hashes of that day, one per session
-- ARGV: the names of the counts
-- returns {'summed'}
local sums, now = {}, now_ms()
for at = 1, #KEYS do
  for number, count in ipairs(redis.call('HMGET', KEYS[at], unpack(ARGV))) do
    sums[number] = (sums[number] or 0) + tonumber(count or 0)
  end
end
for number, name in ipairs(ARGV) do
  local known = tonumber(redis.call('HGET', KEYS[1], 'all:' .. name) or 0)
  if sums[number] > known then redis.call('HSET', KEYS[1], 'all:' .. name, sums[number]) end
end
redis.call('HSET', KEYS[1], 'summed_at', now)
redis.call('EXPIRE', KEYS[1], 34560000)
return { 'summed' }
