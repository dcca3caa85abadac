-- route_message: move an accepted message from the gateway's jobs to its phone's queue, or to the schedule if its time has not come.
-- Atomic because two dispatchers may hold the same job: leaving the list and entering the queue must be one step.
-- KEYS[1] jobs list  KEYS[2] waiting hash  KEYS[3] message hash  KEYS[4] queue zset  KEYS[5] scheduled zset  KEYS[6] due zset
-- KEYS[7] index zset  KEYS[8] index of the session  KEYS[9] index of the recipient  KEYS[10] index of the reference
-- KEYS[11] the session's hash, which must exist  KEYS[12] submitted zset
-- ARGV[1] id  ARGV[2] phone  ARGV[3] session id
-- returns {'queued', score} | {'scheduled', due} | {'gone'} | {'no_session'}
local id, phone = ARGV[1], ARGV[2]
local now = now_ms()
local known = redis.call('HMGET', KEYS[3], 'priority', 'sequence', 'due_at', 'accepted_at', 'reference', 'status', 'phone')
-- leave: it is a job no more; false when another has taken it.
local function leave()
  if redis.call('LREM', KEYS[1], 1, id) == 0 then return false end
  if redis.call('HINCRBY', KEYS[2], phone, -1) <= 0 then redis.call('HDEL', KEYS[2], phone) end
  return true
end
-- Another router may have given it to another phone since the caller looked.
if known[7] ~= phone then return { 'gone' } end -- guard: route_place
-- One that was tried before it was given to another sender may turn out to have arrived: it must not be sent again.
if known[6] ~= 'queued' then leave() return { 'gone' } end -- guard: route_waiting
if redis.call('EXISTS', KEYS[11]) == 0 then return { 'no_session' } end -- guard: session_exists
if not leave() then return { 'gone' } end -- guard: one_router
redis.call('HSET', KEYS[3], 'session', ARGV[3])
for index = 7, 9 do redis.call('ZADD', KEYS[index], known[4], id) end
if known[5] and known[5] ~= '' then redis.call('ZADD', KEYS[10], known[4], id) end
-- Who is given far too much within a minute is seen by this; see mark_burst.
redis.call('ZREMRANGEBYSCORE', KEYS[12], '-inf', known[4] - 60000)
redis.call('ZADD', KEYS[12], known[4], id)
redis.call('PEXPIRE', KEYS[12], 60000)
local due = tonumber(known[3] or 0)
if due > now then
  redis.call('ZADD', KEYS[5], due, id)
  return { 'scheduled', due }
end
local score = tonumber(known[1]) * 1e15 + tonumber(known[2])
redis.call('ZADD', KEYS[4], score, id)
redis.call('ZADD', KEYS[6], 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
return { 'queued', score }
