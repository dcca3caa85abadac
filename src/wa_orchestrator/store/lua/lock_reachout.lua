-- uses: _event
-- uses: _deadline
-- lock_reachout: WhatsApp does (or does not) let a phone write to new contacts; the phone is looked at anew.
-- Atomic because the news must be told once, a guess must not shorten what WhatsApp itself has said, and a worker's later word counts.
-- KEYS[1] pace hash  KEYS[2] due zset  KEYS[3] events stream
-- ARGV[1] phone  ARGV[2] session id  ARGV[3] until ms (0 = no lock)  ARGV[4] 'told' = WhatsApp says so, 'guessed' = after an error
-- ARGV[5] who says so: session and epoch ('' = nobody whose words have an order)  ARGV[6] the number of that word
-- returns {'locked', until ms} | {'open'} | {'same'}
local now = now_ms()
local known, ends = tonumber(redis.call('HGET', KEYS[1], 'lock_until') or 0), tonumber(ARGV[3])
if ARGV[5] ~= '' then
  local heard = redis.call('HMGET', KEYS[1], 'lock_said_by', 'lock_said')
  if heard[1] == ARGV[5] and tonumber(heard[2]) > tonumber(ARGV[6]) then return { 'same' } end -- guard: lock_order
  redis.call('HSET', KEYS[1], 'lock_said_by', ARGV[5], 'lock_said', ARGV[6])
end
if ARGV[4] == 'guessed' and known >= ends then return { 'same' } end -- guard: lock_guess
if known == ends or (known <= now and ends <= now) then return { 'same' } end -- guard: lock_news
redis.call('HSET', KEYS[1], 'lock_until', string.format('%.0f', ends))
redis.call('ZADD', KEYS[2], 'LT', now, ARGV[1])
redis.call('PUBLISH', 'dispatch:wake', ARGV[1])
emit(KEYS[3], ends > now and 'session.reachout_locked' or 'session.reachout_unlocked', now, 'session', ARGV[2], 'phone', ARGV[1],
  'until', told_until(ends))
if ends > now then return { 'locked', ends } end
return { 'open' }
