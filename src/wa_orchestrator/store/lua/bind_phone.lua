-- uses: _session
-- bind_phone: a worker reports CONNECTED with its phone number; the temporary binding becomes the phone's sticky one, or yields to it.
-- Atomic because phone -> proxy, phone -> session, the slots and the status must never disagree.
-- KEYS[1] session hash  KEYS[2] temporary binding  KEYS[3] sticky  KEYS[4] sticky's history  KEYS[5] sessions of the phone  KEYS[6] active sessions
-- KEYS[7] session's events  KEYS[8] events  KEYS[9] hash of the sticky proxy  KEYS[10] sessions of the sticky proxy  KEYS[11] due zset  KEYS[12] sessions of the phone it had
-- ARGV[1] session id  ARGV[2] epoch  ARGV[3] phone  ARGV[4] sticky proxy as seen ('' = none)  ARGV[5] own proxy as seen  ARGV[6] most per proxy
-- ARGV[7] most per phone  ARGV[8] 'given' = the operator chose the proxy, else ''  ARGV[9] phone it had, as seen  ARGV[10…] further fields and values
-- returns {'bound', how} (how: first | same | given | sticky_bad | sticky_full) | {'moved', proxy} | {'phone_full', count} | {'changed'} | {'fenced', epoch}
local id, phone, sticky, own = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local now = now_ms()
local known = redis.call('HMGET', KEYS[1], 'epoch', 'proxy', 'first_connected_at', 'phone', 'left_phone', 'status')
if known[1] ~= ARGV[2] then return { 'fenced', known[1] or '0' } end -- guard: bind_epoch
if (redis.call('GET', KEYS[3]) or '') ~= sticky or known[2] ~= own then return { 'changed' } end -- guard: bind_seen
local leaves = known[4] and known[4] ~= '' and known[4] ~= phone
if leaves and known[4] ~= ARGV[9] then return { 'changed' } end -- guard: bind_was
local others = redis.call('SCARD', KEYS[5]) - redis.call('SISMEMBER', KEYS[5], id)
if others >= tonumber(ARGV[7]) then return { 'phone_full', others } end -- guard: bind_phone_limit
-- What waits for it at a phone it leaves is taken along afterwards; written here, so that no crash can lose it. All such phones, the last one last.
if leaves then -- guard: bind_leaves
  redis.call('SREM', KEYS[12], id)
  redis.call('HSET', KEYS[1], 'left_phone', (known[5] and known[5] .. ' ' or '') .. known[4])
end
local how = 'same'
if sticky == '' then
  how = 'first'
elseif sticky ~= own and ARGV[8] == 'given' then
  how = 'given'
elseif sticky ~= own then
  if redis.call('HGET', KEYS[9], 'status') ~= 'OK' then
    how = 'sticky_bad'
  elseif redis.call('SCARD', KEYS[10]) >= tonumber(ARGV[6]) then
    how = 'sticky_full'
  else
    redis.call('SADD', KEYS[10], id)
    redis.call('SADD', KEYS[5], id)
    -- The worker speaks through the other proxy: that it must be replaced is written in the same step, so no crash can lose it;
    -- and it keeps its slot there until it has ended (release_slot).
    redis.call('HSET', KEYS[1], 'proxy', sticky, 'phone', phone, 'restart_epoch', known[1], 'leaving', own)
    redis.call('HINCRBY', KEYS[1], 'version', 1)
    redis.call('SET', KEYS[2], sticky)
    emit_and_keep(KEYS[7], KEYS[8], 'session.moved', now, 'session', id, 'reason', 'STICKY_PROXY', 'from', own, 'to', sticky, 'phone', phone)
    return { 'moved', sticky }
  end
end
if how ~= 'same' and own ~= '' then
  redis.call('SET', KEYS[3], own)
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', 100, '*', 'from', sticky, 'to', own, 'reason', how, 'session', id, 'at', now)
  emit_and_keep(KEYS[7], KEYS[8], 'phone.bound', now, 'session', id, 'reason', how, 'from', sticky, 'to', own, 'phone', phone)
end
redis.call('DEL', KEYS[2])
redis.call('SADD', KEYS[5], id)
redis.call('SADD', KEYS[6], id)
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'phone', phone, 'status', 'connected', 'reason', '', 'connected_at', now, 'last_ping_at', now, unpack(ARGV, 10))
if (known[3] or '') == '' then redis.call('HSET', KEYS[1], 'first_connected_at', now) end
if known[6] ~= 'connected' then
  redis.call('HSET', KEYS[1], 'changed_at', now)
  emit_and_keep(KEYS[7], KEYS[8], 'session.connected', now, 'session', id, 'reason', '', 'what', 'CONNECTED', 'phone', phone)
end
redis.call('ZADD', KEYS[11], 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
return { 'bound', how }
