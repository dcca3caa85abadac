-- uses: _tag_limits
-- restore_session: record a session of a backup again that does not exist now, with a slot on its proxy if that has room.
-- Atomic because capacity is checked and taken in one step: a restore must not overfill a proxy either.
-- KEYS[1] session hash  KEYS[2] all sessions  KEYS[3] sessions of the phone  KEYS[4] proxy hash  KEYS[5] sessions of the proxy
-- KEYS[6] sticky proxy of the phone  KEYS[7] all proxies  KEYS[8] available proxies  KEYS[9] epoch to begin with  KEYS[10] tag limits hash
-- ARGV[1] session id  ARGV[2] phone or ''  ARGV[3] proxy id or ''  ARGV[4] most per proxy  ARGV[5] most per phone  ARGV[6] epoch
-- ARGV[7] number of values of the proxy, then its fields and values, for a proxy that is gone  then fields and values of the session
-- returns {'restored', proxy id or ''} | {'exists'} | {'phone_full', count}
local SESSION, ALL, OF_PHONE, PROXY, SLOTS, STICKY, PROXIES, AVAILABLE, EPOCH_FLOOR, TAG_LIMITS = unpack(KEYS, 1, 10)
local id, phone, proxy, per_proxy, per_phone = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local epoch, proxy_values = tonumber(ARGV[6]), tonumber(ARGV[7])
if redis.call('EXISTS', SESSION) == 1 then return { 'exists' } end -- guard: restored_new
local siblings = phone ~= '' and redis.call('SCARD', OF_PHONE) or 0
if siblings >= per_phone then return { 'phone_full', siblings } end -- guard: restored_phone_limit
if proxy ~= '' and redis.call('EXISTS', PROXY) == 0 and proxy_values > 0 then
  redis.call('HSET', PROXY, unpack(ARGV, 8, 7 + proxy_values))
  redis.call('SADD', PROXIES, proxy)
  redis.call('SADD', AVAILABLE, proxy)
end
if proxy ~= '' and (redis.call('EXISTS', PROXY) == 0 or redis.call('SCARD', SLOTS) >= per_proxy) then proxy = '' end -- guard: restored_room
redis.call('HSET', SESSION, unpack(ARGV, 8 + proxy_values))
redis.call('HSET', SESSION, 'proxy', proxy, 'leaving', '', 'epoch', math.max(epoch, tonumber(redis.call('GET', EPOCH_FLOOR) or 0) + 1))
write_tag_limits(SESSION, TAG_LIMITS) -- they may be others than at the time of the backup
redis.call('SADD', ALL, id)
if phone ~= '' then redis.call('SADD', OF_PHONE, id) end
if proxy ~= '' then
  redis.call('SADD', SLOTS, id)
  if phone ~= '' and redis.call('EXISTS', STICKY) == 0 then redis.call('SET', STICKY, proxy) end
end
return { 'restored', proxy }
