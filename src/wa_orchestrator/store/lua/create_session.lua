-- uses: _session
-- create_session: record a new session and take its slot on a proxy.
-- Atomic because capacity is checked and taken in one step: two requests for the last slot must not both have it.
-- KEYS[1] session hash  KEYS[2] all sessions  KEYS[3] temporary binding  KEYS[4] sessions of the phone  KEYS[5] provisioning list
-- KEYS[6] session's events  KEYS[7] events  KEYS[8] epoch to begin with  KEYS[9…] candidates: proxy hash, sessions of that proxy, …
-- ARGV[1] session id  ARGV[2] most per proxy  ARGV[3] most per phone  ARGV[4] phone ('' = not known yet)  ARGV[5] 'direct' = no proxy at all, else ''
-- ARGV[6] number of candidates n  ARGV[7…6+n] their ids  then fields and values of the session
-- returns {'created', proxy id or ''} | {'exists'} | {'phone_full', count} | {'no_room'}
local id, phone, count = ARGV[1], ARGV[4], tonumber(ARGV[6])
local now = now_ms()
if redis.call('EXISTS', KEYS[1]) == 1 then return { 'exists' } end -- guard: new
local siblings = phone ~= '' and redis.call('SCARD', KEYS[4]) or 0
if siblings >= tonumber(ARGV[3]) then return { 'phone_full', siblings } end -- guard: phone_limit
local proxy, slots = pick_slot(9, 7, count, tonumber(ARGV[2]))
if not proxy and ARGV[5] ~= 'direct' then return { 'no_room' } end -- guard: room
proxy = proxy or ''
redis.call('HSET', KEYS[1], 'id', id, 'status', 'pending', 'phone', phone, 'proxy', proxy, 'epoch', redis.call('GET', KEYS[8]) or 0, 'version', 1,
  'created_at', now, 'changed_at', now, unpack(ARGV, 7 + count))
redis.call('SADD', KEYS[2], id)
if proxy ~= '' then
  redis.call('SADD', slots, id)
  redis.call('SET', KEYS[3], proxy)
end
if phone ~= '' then redis.call('SADD', KEYS[4], id) end
redis.call('RPUSH', KEYS[5], id)
emit_and_keep(KEYS[6], KEYS[7], 'session.pending', now, 'session', id, 'reason', 'WAITING_FOR_TURN', 'proxy', proxy)
return { 'created', proxy }
