-- uses: _event
-- mark_proxy: write what a check or a strike said about a proxy, if nothing else was written meanwhile.
-- Atomic (compare and set) because the monitor and a worker's report may judge the same proxy at once.
-- KEYS[1] proxy hash  KEYS[2] available proxies  KEYS[3] events
-- ARGV[1] proxy id  ARGV[2] version as seen  ARGV[3] status: OK | BAD  ARGV[4] reason  ARGV[5…] further fields and values
-- returns {'marked', version} | {'changed', version} | {'unknown'}
local known = redis.call('HMGET', KEYS[1], 'version', 'status')
if not known[1] then return { 'unknown' } end
if known[1] ~= ARGV[2] then return { 'changed', known[1] } end -- guard: proxy_version
local now = now_ms()
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'status', ARGV[3], unpack(ARGV, 5))
if ARGV[3] == 'OK' then redis.call('SADD', KEYS[2], ARGV[1]) else redis.call('SREM', KEYS[2], ARGV[1]) end
if known[2] ~= ARGV[3] then
  redis.call('HSET', KEYS[1], 'changed_at', now)
  emit(KEYS[3], 'proxy.' .. string.lower(ARGV[3]), now, 'proxy', ARGV[1], 'reason', ARGV[4])
end
return { 'marked', version }
