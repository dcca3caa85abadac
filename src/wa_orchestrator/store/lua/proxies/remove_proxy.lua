-- uses: _event
-- remove_proxy: remove a proxy from the pool, if no session uses it.
-- Atomic because a session could take a slot between the check and the removal.
-- KEYS[1] proxy hash  KEYS[2] all proxies  KEYS[3] available proxies  KEYS[4] sessions of the proxy  KEYS[5] events  ARGV[1] proxy id
-- returns {'removed'} | {'in_use', count} | {'unknown'}
local PROXY, ALL, AVAILABLE, OF_PROXY, EVENTS = unpack(KEYS)
local id = ARGV[1]
if redis.call('EXISTS', PROXY) == 0 then return { 'unknown' } end
local load = redis.call('SCARD', OF_PROXY)
if load > 0 then return { 'in_use', load } end -- guard: proxy_empty
redis.call('DEL', PROXY)
redis.call('SREM', ALL, id)
redis.call('SREM', AVAILABLE, id)
emit(EVENTS, 'proxy.removed', now_ms(), 'proxy', id)
return { 'removed' }
