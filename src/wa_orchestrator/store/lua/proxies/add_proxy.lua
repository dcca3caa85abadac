-- uses: _event
-- add_proxy: add a proxy to the pool; a known one stays as it is.
-- Atomic because a proxy in the pool without its record could be chosen and not be dialled.
-- KEYS[1] proxy hash  KEYS[2] all proxies  KEYS[3] available proxies  KEYS[4] events
-- ARGV[1] proxy id  ARGV[2] url  ARGV[3] masked url  ARGV[4] origin (environment | operator | provision)
-- returns {'added'} | {'known', status}
local PROXY, ALL, AVAILABLE, EVENTS = unpack(KEYS)
local id, url, masked, origin = unpack(ARGV)
local status = redis.call('HGET', PROXY, 'status')
if status then return { 'known', status } end -- guard: known_proxy
local now = now_ms()
redis.call('HSET', PROXY, 'id', id, 'url', url, 'masked', masked, 'status', 'OK', 'origin', origin, 'added_at', now, 'version', 1,
  'strikes', '[]', 'good_in_a_row', 0, 'bad_in_a_row', 0, 'changed_at', now)
redis.call('SADD', ALL, id)
redis.call('SADD', AVAILABLE, id)
emit(EVENTS, 'proxy.added', now, 'proxy', id)
return { 'added' }
