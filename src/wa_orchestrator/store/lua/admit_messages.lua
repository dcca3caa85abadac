-- uses: _event
-- uses: _rate
-- admit_messages: take messages in, each once, or say of each why not; and count the calls that brought them against their key's rate.
-- Atomic because the answer to a client must be true whatever dies next: idempotency record, message, job and counts are one write.
-- Many at once because what they share (rate, counts, jobs, the clock) then costs as much as for one.
-- KEYS[1] rate  KEYS[2] jobs list  KEYS[3] waiting hash  KEYS[4] counts hash  KEYS[5] opt-outs hash  KEYS[6] sequence
-- KEYS[7] expiring zset  KEYS[8] events stream; then for each message: idempotency hash, message hash, queue zset, sent zset, pace hash
-- ARGV[1] ms between two calls (0 = calls are not counted)  ARGV[2] calls that may come at once  ARGV[3] idempotency ttl ms
--   then for each message a JSON array, which is cheaper than as many arguments:
--   1 id  2 phone  3 recipient  4 fingerprint ('' = no idempotency key)  5 queue limit  6 day limit  7 start of the day ms
--   8 due ms (0 = now)  9 defer to ms (0 = reject)  10 expires ms (0 = never)  11 session id  12 priority
--   13… further fields and values of the message
-- returns for each {'accepted', ahead, now, due} | {'replayed', message id, answer or ''} | {'conflict'} | {'opted_out'}
--       | {'day_full', count} | {'queue_full', count} | {'limited', retry after ms} | {'error', what Redis said}
local SHARED_KEYS, KEYS_EACH, SHARED_WORDS = 8, 5, 3
local now = now_ms()
local gap, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local arrival = gap > 0 and tonumber(redis.call('GET', KEYS[1]) or 0) or 0
local jobs, waiting = {}, {}

-- admit: one message, whose keys stand after KEYS[k].
local function admit(k, wanted)
  if gap > 0 then
    local after, wait = spend(arrival, now, gap, burst, 1)
    if not after then return { 'limited', wait } end -- guard: admitted
    arrival = after
  end
  local id, phone, recipient, fingerprint, queue_limit, day_limit, day_start, due, defer_to, expires, session, priority = unpack(wanted, 1, 12)
  if fingerprint ~= '' then
    local known = redis.call('HMGET', KEYS[k + 1], 'fingerprint', 'message', 'answer')
    if known[1] and known[1] ~= fingerprint then return { 'conflict' } end -- guard: conflict
    if known[1] then return { 'replayed', known[2], known[3] or '' } end -- guard: replay
  end
  if redis.call('HEXISTS', KEYS[5], recipient) == 1 then return { 'opted_out' } end -- guard: opt_out
  local unrouted = waiting[phone] or tonumber(redis.call('HGET', KEYS[3], phone) or 0)
  local queued = redis.call('ZCARD', KEYS[k + 3])
  local ahead = queued + unrouted
  if ahead >= queue_limit then return { 'queue_full', ahead } end -- guard: queue_limit
  if due <= now then
    due = 0
    local today = ahead + redis.call('ZCOUNT', KEYS[k + 4], day_start, '+inf')
    if today >= day_limit then
      due = defer_to
      if due == 0 then return { 'day_full', today } end -- guard: day_limit
    end
  end
  -- Those of a lesser priority wait for it, not it for them.
  local first = ahead
  if queued > 0 then first = first - redis.call('ZCOUNT', KEYS[k + 3], (priority + 1) * 1e15, '+inf') end
  if (redis.call('HGET', KEYS[k + 5], 'in_flight') or '') ~= '' then first = first + 1 end
  -- What is 0 or empty at first is not written: nobody tells it from what is not there.
  redis.call('HSET', KEYS[k + 2], 'id', id, 'phone', phone, 'to', recipient, 'session', session, 'status', 'queued', 'accepted_at', now,
    'changed_at', now, 'sequence', redis.call('INCR', KEYS[6]), 'priority', priority, unpack(wanted, 13))
  if due > 0 then redis.call('HSET', KEYS[k + 2], 'due_at', due) end
  if expires > 0 then
    redis.call('HSET', KEYS[k + 2], 'expires_at', expires)
    redis.call('ZADD', KEYS[7], expires, id)
  end
  if fingerprint ~= '' then
    redis.call('HSET', KEYS[k + 1], 'fingerprint', fingerprint, 'message', id)
    redis.call('PEXPIRE', KEYS[k + 1], ARGV[3])
  end
  emit(KEYS[8], 'message.queued', now, 'session', session, 'message', id, 'phone', phone, 'note', '')
  waiting[phone] = unrouted + 1
  jobs[#jobs + 1] = id
  return { 'accepted', first, now, due }
end

local answers = {}
for n = 1, #ARGV - SHARED_WORDS do
  -- One that stumbles must not take its neighbours along: their jobs are written below.
  local done, verdict = pcall(admit, SHARED_KEYS + (n - 1) * KEYS_EACH, cjson.decode(ARGV[SHARED_WORDS + n]))
  answers[n] = done and verdict or { 'error', type(verdict) == 'table' and verdict.err or tostring(verdict) }
end
if arrival > now then keep_rate(KEYS[1], arrival, now) end
if #jobs > 0 then
  local counts = {}
  for phone, count in pairs(waiting) do
    counts[#counts + 1] = phone
    counts[#counts + 1] = count
  end
  redis.call('HSET', KEYS[3], unpack(counts))
  redis.call('RPUSH', KEYS[2], unpack(jobs))
  redis.call('HINCRBY', KEYS[4], 'accepted', #jobs)
  redis.call('HINCRBY', KEYS[4], 'queued', #jobs)
  redis.call('PUBLISH', 'dispatch:wake', 'jobs')
end
return answers
