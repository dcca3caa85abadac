-- record_login: WhatsApp accepted a session's login. Remember it, and the newest client revision that was ever accepted.
-- Atomic because sessions log in at the same time, and an older revision must not replace a newer one.
-- KEYS[1] client version hash
-- ARGV[1] session id  ARGV[2] client revision (0 = unknown)
-- returns {'recorded'}
local VERSION = KEYS[1]
local session_id, revision = ARGV[1], tonumber(ARGV[2])
redis.call('HSET', VERSION, 'login_session', session_id, 'login_at', now_ms(), 'login_revision', revision)
local newest = tonumber(redis.call('HGET', VERSION, 'newest') or '0')
if revision > newest then redis.call('HSET', VERSION, 'newest', revision) end -- guard: newest_revision
return { 'recorded' }
