-- uses: _event
-- remove_proxy: a proxy leaves the pool, if nobody sits on it.
-- Atomic because a session could take a slot between the look and the removal.
-- KEYS[1] proxy hash  KEYS[2] all proxies  KEYS[3] available proxies  KEYS[4] sessions of the proxy  KEYS[5] events  ARGV[1] proxy id
-- returns {'removed'} | {'in_use', count} | {'unknown'}
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'unknown' } end
local load = redis.call('SCARD', KEYS[4])
if load > 0 then return { 'in_use', load } end -- guard: proxy_empty
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
emit(KEYS[5], 'proxy.removed', now_ms(), 'proxy', ARGV[1])
return { 'removed' }
