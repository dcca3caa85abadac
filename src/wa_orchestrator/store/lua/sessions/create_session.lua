-- uses: _session
-- uses: _tag_limits
-- create_session: record a new session and take its slot on a proxy.
-- Atomic because capacity is checked and taken in one step: two requests for the last slot must not both have it.
-- KEYS[1] session hash  KEYS[2] all sessions  KEYS[3] temporary binding  KEYS[4] sessions of the phone  KEYS[5] provisioning list
-- KEYS[6] session's events  KEYS[7] events  KEYS[8] epoch to begin with  KEYS[9] tag limits hash  KEYS[10…] candidates: proxy hash, sessions of that proxy, …
-- ARGV[1] session id  ARGV[2] most per proxy  ARGV[3] most per phone  ARGV[4] phone ('' = not known yet)  ARGV[5] 'direct' = no proxy at all, else ''
-- ARGV[6] sessions of the phone as seen
-- ARGV[7] all sessions as seen, if its profile was chosen by that, else ''
-- ARGV[8] number of candidates n  ARGV[9…8+n] their ids  then fields and values of the session
-- returns {'created', proxy id or ''} | {'exists'} | {'phone_full', count} | {'changed'} | {'no_room'}
local SESSION, ALL, TEMPORARY, OF_PHONE, PROVISIONING, HISTORY, EVENTS, EPOCH_FLOOR, TAG_LIMITS = unpack(KEYS, 1, 9)
local id, per_proxy, per_phone, phone, direct = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local seen_siblings, seen_all, candidates = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local now = now_ms()
if redis.call('EXISTS', SESSION) == 1 then return { 'exists' } end -- guard: new
local siblings = phone ~= '' and redis.call('SCARD', OF_PHONE) or 0
if siblings >= per_phone then return { 'phone_full', siblings } end -- guard: phone_limit
-- Candidates were chosen so that all sessions of the phone are on one proxy; another session of it may have come since.
if siblings ~= seen_siblings then return { 'changed' } end -- guard: siblings_seen
-- Of profiles that few sessions may share another request could have taken the last place.
if seen_all ~= '' and redis.call('SCARD', ALL) ~= tonumber(seen_all) then return { 'changed' } end -- guard: profile_seen
local proxy, slots = pick_slot(10, 9, candidates, per_proxy)
if not proxy and direct ~= 'direct' then return { 'no_room' } end -- guard: room
proxy = proxy or ''
redis.call('HSET', SESSION, 'id', id, 'status', 'pending', 'phone', phone, 'proxy', proxy, 'epoch', redis.call('GET', EPOCH_FLOOR) or 0, 'version', 1,
  'created_at', now, 'changed_at', now, unpack(ARGV, 9 + candidates))
write_tag_limits(SESSION, TAG_LIMITS)
redis.call('SADD', ALL, id)
if proxy ~= '' then
  redis.call('SADD', slots, id)
  redis.call('SET', TEMPORARY, proxy)
end
if phone ~= '' then redis.call('SADD', OF_PHONE, id) end
redis.call('RPUSH', PROVISIONING, id)
emit_and_keep(HISTORY, EVENTS, 'session.pending', now, 'session', id, 'reason', 'WAITING_FOR_TURN', 'proxy', proxy)
return { 'created', proxy }
