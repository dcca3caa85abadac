-- uses: _session
-- advance_session: write a session's next state, if it is still the one the decision was made for.
-- Atomic (compare and set) because events, the watchdog and people act on a session at the same time.
-- KEYS[1] session hash  KEYS[2] session's events  KEYS[3] events  KEYS[4] active sessions  KEYS[5] due zset
-- ARGV[1] session id  ARGV[2] version the decision saw  ARGV[3] epoch of the reporting worker ('' = the server itself)
-- ARGV[4] status  ARGV[5] reason  ARGV[6] what happened  ARGV[7…] further fields and values
-- returns {'advanced', version} | {'changed', version} | {'fenced', epoch} | {'unknown'}
local SESSION, HISTORY, EVENTS, ACTIVE, DUE = unpack(KEYS)
local id, seen_version, epoch, status, reason, what = unpack(ARGV, 1, 6)
local now = now_ms()
local known = redis.call('HMGET', SESSION, 'version', 'epoch', 'status', 'reason', 'phone', 'unlinked_at')
local phone = known[5] or ''
if not known[1] then return { 'unknown' } end
if epoch ~= '' and epoch ~= known[2] then return { 'fenced', known[2] } end -- guard: advance_epoch
if seen_version ~= known[1] then return { 'changed', known[1] } end -- guard: version
local version = redis.call('HINCRBY', SESSION, 'version', 1)
redis.call('HSET', SESSION, 'status', status, 'reason', reason, unpack(ARGV, 7))
if known[3] ~= status or known[4] ~= reason then
  redis.call('HSET', SESSION, 'changed_at', now)
  emit_and_keep(HISTORY, EVENTS, 'session.' .. status, now, 'session', id, 'reason', reason, 'what', what, 'phone', phone)
end
if (known[6] or '0') == '0' and (redis.call('HGET', SESSION, 'unlinked_at') or '0') ~= '0' then -- guard: unlinked_once
  emit_and_keep(HISTORY, EVENTS, 'session.unlinked', now, 'session', id, 'reason', reason, 'what', what, 'phone', phone)
end
if status ~= 'connected' then
  redis.call('SREM', ACTIVE, id)
else
  redis.call('SADD', ACTIVE, id)
  if phone ~= '' then
    redis.call('ZADD', DUE, 'LT', now, phone)
    redis.call('PUBLISH', 'dispatch:wake', phone)
  end
end
return { 'advanced', version }
