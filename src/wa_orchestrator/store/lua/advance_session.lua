-- uses: _session
-- advance_session: write a session's next state, if it is still what the decision was made for.
-- Atomic (compare and set) because events, the watchdog and people act on a session at the same time.
-- KEYS[1] session hash  KEYS[2] session's events  KEYS[3] events  KEYS[4] active sessions  KEYS[5] due zset
-- ARGV[1] session id  ARGV[2] version the decision saw  ARGV[3] epoch it speaks for ('' = the server itself)
-- ARGV[4] status  ARGV[5] reason  ARGV[6] what happened  ARGV[7…] further fields and values
-- returns {'advanced', version} | {'changed', version} | {'fenced', epoch} | {'unknown'}
local id = ARGV[1]
local now = now_ms()
local known = redis.call('HMGET', KEYS[1], 'version', 'epoch', 'status', 'reason', 'phone')
if not known[1] then return { 'unknown' } end
if ARGV[3] ~= '' and ARGV[3] ~= known[2] then return { 'fenced', known[2] } end -- guard: advance_epoch
if ARGV[2] ~= known[1] then return { 'changed', known[1] } end -- guard: version
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'status', ARGV[4], 'reason', ARGV[5], unpack(ARGV, 7))
if known[3] ~= ARGV[4] or known[4] ~= ARGV[5] then
  redis.call('HSET', KEYS[1], 'changed_at', now)
  emit_and_keep(KEYS[2], KEYS[3], 'session.' .. ARGV[4], now, 'session', id, 'reason', ARGV[5], 'what', ARGV[6], 'phone', known[5] or '')
end
if ARGV[4] ~= 'connected' then
  redis.call('SREM', KEYS[4], id)
else
  redis.call('SADD', KEYS[4], id)
  if known[5] and known[5] ~= '' then
    redis.call('ZADD', KEYS[5], 'LT', now, known[5])
    redis.call('PUBLISH', 'dispatch:wake', known[5])
  end
end
return { 'advanced', version }
