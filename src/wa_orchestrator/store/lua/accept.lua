-- accept: take a message in, once, or say why not.
-- Atomic because the answer to the client must be true whatever dies next: idempotency record, message, job and count are one write.
-- KEYS[1] idempotency hash  KEYS[2] message hash  KEYS[3] story list    KEYS[4] jobs list       KEYS[5] waiting hash
-- KEYS[6] counts hash       KEYS[7] queue zset    KEYS[8] sent zset     KEYS[9] opt-outs hash   KEYS[10] submitted zset
-- KEYS[11] sequence         KEYS[12] expiring zset  KEYS[13] events stream  KEYS[14] pace hash
-- ARGV[1] id  ARGV[2] phone  ARGV[3] recipient  ARGV[4] fingerprint ('' = no idempotency key)  ARGV[5] idempotency ttl ms
-- ARGV[6] queue limit  ARGV[7] day limit  ARGV[8] start of the day ms  ARGV[9] due ms (0 = now)  ARGV[10] defer to ms (0 = reject)
-- ARGV[11] expires ms (0 = never)  ARGV[12] session id  ARGV[13] priority  ARGV[14…] further fields and values of the message
-- returns {'accepted', ahead, now, submitted in the last minute, due} | {'replayed', message id, answer or ''} | {'conflict'} | {'opted_out'}
--       | {'day_full', count} | {'queue_full', count}
local id, phone, recipient, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now = now_ms()
if fingerprint ~= '' then
  local known = redis.call('HMGET', KEYS[1], 'fingerprint', 'message', 'answer')
  if known[1] and known[1] ~= fingerprint then return { 'conflict' } end -- guard: conflict
  if known[1] then return { 'replayed', known[2], known[3] or '' } end -- guard: replay
end
if redis.call('HEXISTS', KEYS[9], recipient) == 1 then return { 'opted_out' } end -- guard: opt_out
local ahead = redis.call('ZCARD', KEYS[7]) + tonumber(redis.call('HGET', KEYS[5], phone) or 0)
if ahead >= tonumber(ARGV[6]) then return { 'queue_full', ahead } end -- guard: queue_limit
local due = tonumber(ARGV[9])
if due <= now then
  due = 0
  local today = ahead + redis.call('ZCOUNT', KEYS[8], ARGV[8], '+inf')
  if today >= tonumber(ARGV[7]) then
    due = tonumber(ARGV[10])
    if due == 0 then return { 'day_full', today } end -- guard: day_limit
  end
end
local sequence = redis.call('INCR', KEYS[11])
redis.call('HSET', KEYS[2], 'id', id, 'phone', phone, 'to', recipient, 'session', ARGV[12], 'status', 'queued', 'accepted_at', now,
  'changed_at', now, 'due_at', due, 'expires_at', ARGV[11], 'sequence', sequence, 'attempts', 0, 'releases', 0, 'crashes', 0, 'reason', '',
  'priority', ARGV[13], unpack(ARGV, 14))
redis.call('RPUSH', KEYS[3], string.format('%.0f', now) .. ' queued ')
redis.call('RPUSH', KEYS[4], id)
redis.call('HINCRBY', KEYS[5], phone, 1)
redis.call('HINCRBY', KEYS[6], 'accepted', 1)
redis.call('HINCRBY', KEYS[6], 'queued', 1)
if tonumber(ARGV[11]) > 0 then redis.call('ZADD', KEYS[12], ARGV[11], id) end
redis.call('ZREMRANGEBYSCORE', KEYS[10], '-inf', now - 60000)
redis.call('ZADD', KEYS[10], now, id)
redis.call('PEXPIRE', KEYS[10], 60000)
if fingerprint ~= '' then
  redis.call('HSET', KEYS[1], 'fingerprint', fingerprint, 'message', id)
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
redis.call('XADD', KEYS[13], 'MAXLEN', '~', 100000, '*', 'type', 'message.queued', 'session', ARGV[12], 'message', id, 'phone', phone,
  'at', now, 'note', '')
redis.call('PUBLISH', 'dispatch:wake', phone)
-- Those of a lesser priority wait for it, not it for them.
ahead = ahead - redis.call('ZCOUNT', KEYS[7], (tonumber(ARGV[13]) + 1) * 1e15, '+inf')
if (redis.call('HGET', KEYS[14], 'in_flight') or '') ~= '' then ahead = ahead + 1 end
return { 'accepted', ahead, now, redis.call('ZCARD', KEYS[10]), due }
