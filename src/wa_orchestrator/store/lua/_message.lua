-- uses: _event
-- Shared by all scripts about one message. Their keys come in one order, so that no script can mix them up:
-- KEYS[1] message hash    KEYS[2] story list      KEYS[3] counts hash     KEYS[4] events stream   KEYS[5] queue zset
-- KEYS[6] set-aside zset  KEYS[7] outbox list     KEYS[8] leases zset     KEYS[9] pace hash       KEYS[10] sent zset
-- KEYS[11] due zset       KEYS[12] session hash   KEYS[13] ended zset     KEYS[14] expiring zset  KEYS[15] dead zset
-- ARGV[1] message id      ARGV[2] phone           ARGV[3] session id      further ones: see the script
local MESSAGE, STORY, COUNTS, EVENTS, QUEUE, ASIDE, OUTBOX, LEASES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local PACE, SENT, DUE, SESSION, ENDED, EXPIRING, DEAD = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local ID, PHONE, SESSION_ID = ARGV[1], ARGV[2], ARGV[3]
local FRONT = 0 -- a score before every (priority, sequence); one message of a phone is in flight, so one at most is here
local OVER = { sent = true, delivered = true, read = true, failed = true, expired = true, cancelled = true }

-- become: the message's new status, its count, its story and the event, in one breath.
local function become(status, now, note)
  local old = redis.call('HGET', MESSAGE, 'status')
  redis.call('HINCRBY', COUNTS, old, -1)
  redis.call('HINCRBY', COUNTS, status, 1)
  redis.call('HSET', MESSAGE, 'status', status, 'changed_at', now, 'reason', note)
  redis.call('RPUSH', STORY, string.format('%.0f', now) .. ' ' .. status .. ' ' .. note)
  redis.call('LTRIM', STORY, -60, -1)
  if OVER[status] then
    redis.call('ZADD', ENDED, now, ID)
    redis.call('ZREM', EXPIRING, ID)
  else
    redis.call('ZREM', ENDED, ID)
  end
  emit(EVENTS, 'message.' .. status, now, 'session', SESSION_ID, 'message', ID, 'phone', PHONE, 'note', note)
end

-- elsewhere: it stands under another phone or session than the caller saw: what the keys name is not its place any more.
local function elsewhere()
  local stands = redis.call('HMGET', MESSAGE, 'phone', 'session')
  return stands[1] ~= PHONE or stands[2] ~= SESSION_ID
end

-- wake: let a dispatcher look at this phone now, unless it will look earlier anyway.
local function wake(now)
  redis.call('ZADD', DUE, 'LT', now, PHONE)
  redis.call('PUBLISH', 'dispatch:wake', PHONE)
end

-- land: nothing of this phone is in flight any more; the pause starts at this moment.
-- The member's score moves to now, the latest instant at which WhatsApp may have seen this attempt.
local function land(now, silence_ms)
  local releases = redis.call('HGET', MESSAGE, 'releases') or '0'
  redis.call('ZADD', SENT, 'XX', now, ID .. '#' .. releases)
  redis.call('HSET', PACE, 'in_flight', '', 'silent_until', now + silence_ms)
  redis.call('LREM', OUTBOX, 0, ID)
  redis.call('ZREM', LEASES, ID)
end

-- unsend: it was released but nobody claimed it, so WhatsApp cannot have seen it: give its place in the budget back.
local function unsend()
  redis.call('ZREM', SENT, ID .. '#' .. (redis.call('HGET', MESSAGE, 'releases') or '0'))
  redis.call('HSET', PACE, 'in_flight', '')
  redis.call('LREM', OUTBOX, 0, ID)
  redis.call('ZREM', LEASES, ID)
end
