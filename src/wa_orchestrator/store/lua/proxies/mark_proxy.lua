-- uses: _event
-- mark_proxy: write the result of a check or a strike, if the proxy was not written meanwhile.
-- Atomic (compare and set) because the monitor and a worker's report may judge the same proxy at once.
-- KEYS[1] proxy hash  KEYS[2] available proxies  KEYS[3] events
-- ARGV[1] proxy id  ARGV[2] version as seen  ARGV[3] status: OK | BAD  ARGV[4] reason  ARGV[5…] further fields and values
-- returns {'marked', version} | {'changed', version} | {'unknown'}
local PROXY, AVAILABLE, EVENTS = KEYS[1], KEYS[2], KEYS[3]
local id, seen_version, status, reason = unpack(ARGV, 1, 4)
local known_version, known_status = unpack(redis.call('HMGET', PROXY, 'version', 'status'))
if not known_version then return { 'unknown' } end
if known_version ~= seen_version then return { 'changed', known_version } end -- guard: proxy_version
local now = now_ms()
local version = redis.call('HINCRBY', PROXY, 'version', 1)
redis.call('HSET', PROXY, 'status', status, unpack(ARGV, 5))
if status == 'OK' then redis.call('SADD', AVAILABLE, id) else redis.call('SREM', AVAILABLE, id) end
if known_status ~= status then
  redis.call('HSET', PROXY, 'changed_at', now)
  emit(EVENTS, 'proxy.' .. string.lower(status), now, 'proxy', id, 'reason', reason)
end
return { 'marked', version }
