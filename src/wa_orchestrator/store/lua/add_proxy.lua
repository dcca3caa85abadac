-- uses: _event
-- add_proxy: a proxy joins the pool; one that is there already stays as it is.
-- Atomic because a proxy in the pool without its record could be chosen and not be dialled.
-- KEYS[1] proxy hash  KEYS[2] all proxies  KEYS[3] available proxies  KEYS[4] events
-- ARGV[1] proxy id  ARGV[2] url  ARGV[3] masked url  ARGV[4] origin (environment | operator | provision)
-- returns {'added'} | {'known', status}
local status = redis.call('HGET', KEYS[1], 'status')
if status then return { 'known', status } end -- guard: known_proxy
local now = now_ms()
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'url', ARGV[2], 'masked', ARGV[3], 'status', 'OK', 'origin', ARGV[4], 'added_at', now, 'version', 1,
  'strikes', '[]', 'good_in_a_row', 0, 'bad_in_a_row', 0, 'changed_at', now)
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[1])
emit(KEYS[4], 'proxy.added', now, 'proxy', ARGV[1])
return { 'added' }
