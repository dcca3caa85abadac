-- uses: _until
-- lock: WhatsApp does (or does not) let a phone write to new contacts; the phone is looked at anew.
-- Atomic because the news must be told once, and a guess must not shorten what WhatsApp itself has said.
-- KEYS[1] pace hash  KEYS[2] due zset  KEYS[3] events stream
-- ARGV[1] phone  ARGV[2] session id  ARGV[3] until ms (0 = no lock)  ARGV[4] 'told' = WhatsApp says so, 'guessed' = after an error
-- returns {'locked', until ms} | {'open'} | {'same'}
local now = now_ms()
local known, ends = tonumber(redis.call('HGET', KEYS[1], 'lock_until') or 0), tonumber(ARGV[3])
if ARGV[4] == 'guessed' and known >= ends then return { 'same' } end -- guard: lock_guess
if known == ends or (known <= now and ends <= now) then return { 'same' } end -- guard: lock_news
redis.call('HSET', KEYS[1], 'lock_until', string.format('%.0f', ends))
redis.call('ZADD', KEYS[2], 'LT', now, ARGV[1])
redis.call('PUBLISH', 'dispatch:wake', ARGV[1])
local kind = ends > now and 'session.reachout_locked' or 'session.reachout_unlocked'
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 100000, '*', 'type', kind, 'session', ARGV[2], 'phone', ARGV[1], 'at', now,
  'until', told_until(ends))
if ends > now then return { 'locked', ends } end
return { 'open' }
