-- change_proxy: write what an operator chose for a proxy: its name, its country, its URL with another password …
-- Atomic because the proxy may be removed at the same moment, and because a new URL and the id under which it is known belong together.
-- The version is raised: a check that is under way has used the old URL, and must not be counted.
-- KEYS[1] proxy hash  KEYS[2] aliases hash  ARGV[1] proxy id  ARGV[2] id that its new URL would give ('' = the URL stays)  ARGV[3…] fields and values
-- returns {'changed_it'} | {'unknown'}
local PROXY, ALIASES = KEYS[1], KEYS[2]
local id, alias = ARGV[1], ARGV[2]
if redis.call('EXISTS', PROXY) == 0 then return { 'unknown' } end -- guard: change_proxy_exists
if alias ~= '' and alias ~= id then redis.call('HSET', ALIASES, alias, id) end -- guard: proxy_alias
redis.call('HINCRBY', PROXY, 'version', 1) -- guard: change_proxy_version
redis.call('HSET', PROXY, unpack(ARGV, 3))
return { 'changed_it' }
