-- uses: _event
-- uses: _rate
-- uses: _conversation
-- uses: _new_contacts
-- admit_messages: accept each message once, or return why not; and count the calls against their API key's rate.
-- Atomic because an accepted message must survive any crash: idempotency record, message, job and counts are one write.
-- Many at once because what they share (rate, counts, jobs, the clock) then costs as much as for one. Most of the rest is the cost
-- of each message's own writes, so nothing is written here that route_message can write: it adds the message to the indexes.
-- KEYS[1] rate  KEYS[2] jobs list  KEYS[3] waiting hash  KEYS[4] counts hash  KEYS[5] opt-outs hash  KEYS[6] sequence
-- KEYS[7] expiring zset  KEYS[8] events stream  KEYS[9] unconfirmed zset; then for each message: message hash, queue zset, sent zset,
-- pace hash, affinity string, later zset, contacts set, zset of strangers written to, set-aside zset, and, if it has an idempotency key (4 is not ''), its hash
-- ARGV[1] ms between two calls (0 = calls are not counted)  ARGV[2] calls that may come at once  ARGV[3] idempotency ttl ms
--   then for each message a JSON array, which is cheaper than as many arguments:
--   1 id  2 phone  3 recipient  4 fingerprint ('' = no idempotency key)  5 queue limit  6 day limit  7 start of the day ms
--   8 due ms (0 = now)  9 defer to ms (0 = reject)  10 expires ms (0 = never)  11 session id  12 priority
--   13 the session that had the conversation when the server chose this one ('' = none; false = the client named the sender)
--   14 whether the reply says if the recipient is a stranger, one who never wrote  15… further fields and values of the message
-- returns for each {'accepted', ahead, now, 'unconfirmed' or '', 'stranger' or ''}
--       | {'scheduled', ahead, now, due, scheduled before it, of these for the same instant, due of the first scheduled,
--          'unconfirmed' or '', 'stranger' or ''}
--       | {'replayed', message id, answer or ''} | {'conflict'} | {'opted_out'}
--       | {'other_sender', the session that has the conversation, or ''} | {'day_full', count} | {'queue_full', count} | {'limited', retry after ms} | {'error', Redis' error}
local RATE, JOBS, WAITING, COUNTS, OPT_OUTS, SEQUENCE, EXPIRING, EVENTS, UNCONFIRMED = unpack(KEYS, 1, 9)
local gap, burst, idempotency_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local SHARED_KEYS, PLAIN_KEYS, ALL_KEYS, SHARED_ARGS = 9, 9, 10, 3
local now = now_ms()
local arrival = gap > 0 and tonumber(redis.call('GET', RATE) or 0) or 0
local messages, first_keys, phones, recipients, affinities = {}, {}, {}, {}, {}
local next_key = SHARED_KEYS + 1
for n = 1, #ARGV - SHARED_ARGS do
  local wanted = cjson.decode(ARGV[SHARED_ARGS + n])
  local is_plain = wanted[4] == ''
  messages[n], first_keys[n], phones[n], recipients[n], affinities[n] = wanted, next_key, wanted[2], wanted[3], KEYS[next_key + 4]
  next_key = next_key + (is_plain and PLAIN_KEYS or ALL_KEYS)
end
-- One call for all messages: a call costs more than what it asks for.
local opt_outs, unconfirmed = redis.call('HMGET', OPT_OUTS, unpack(recipients)), redis.call('ZMSCORE', UNCONFIRMED, unpack(recipients))
local senders, unrouted = redis.call('MGET', unpack(affinities)), redis.call('HMGET', WAITING, unpack(phones))
local sequence = tonumber(redis.call('GET', SEQUENCE) or 0)
local jobs, waiting, new_senders = {}, {}, {}

-- admit: accept or reject the nth message.
local function admit(n)
  local k = first_keys[n]
  local MESSAGE, QUEUE, SENT, PACE, AFFINITY, LATER, CONTACTS, UNANSWERED, ASIDE, IDEMPOTENCY = unpack(KEYS, k, k + ALL_KEYS - 1)
  if gap > 0 then
    local after, wait = spend(arrival, now, gap, burst, 1)
    if not after then return { 'limited', wait } end -- guard: admitted
    arrival = after
  end
  local id, phone, recipient, fingerprint, queue_limit, day_limit, day_start, due, defer_to, expires, session, priority, seen_sender, is_watched = unpack(messages[n], 1, 14)
  if fingerprint ~= '' then
    local known = redis.call('HMGET', IDEMPOTENCY, 'fingerprint', 'message', 'answer')
    if known[1] and known[1] ~= fingerprint then return { 'conflict' } end -- guard: conflict
    if known[1] then return { 'replayed', known[2], known[3] or '' } end -- guard: replay
  end
  if opt_outs[n] then return { 'opted_out' } end -- guard: opt_out
  -- From another phone this message would overtake those that wait for the conversation's sender.
  local sender = new_senders[AFFINITY] or senders[n] or ''
  if seen_sender and sender ~= seen_sender then return { 'other_sender', sender } end -- guard: one_sender
  local waits = waiting[phone] or tonumber(unrouted[n] or 0)
  local queued = redis.call('ZCARD', QUEUE)
  local ahead = queued + waits
  -- What is scheduled waits too: memory and disk are used by it as by the rest.
  local all = ahead + redis.call('ZCARD', LATER)
  if all >= queue_limit then return { 'queue_full', all } end -- guard: queue_limit
  -- Messages set aside count only against messages to new contacts: people who have written can still be answered.
  local aside = all + redis.call('ZCARD', ASIDE)
  local has_no_room = aside >= queue_limit and is_new_contact(CONTACTS, recipient, recipient)
  if has_no_room then return { 'queue_full', aside } end -- guard: aside_limit
  local deferred = false
  if due <= now then
    due = 0
    local today = ahead + redis.call('ZCOUNT', SENT, day_start, '+inf')
    if today >= day_limit then
      due = defer_to
      if due == 0 then return { 'day_full', today } end -- guard: day_limit
      deferred = true
      -- A millisecond after the one deferred before it: of one instant, messages would leave in the order of their ids.
      local last = redis.call('ZREVRANGEBYSCORE', LATER, due + 60000, due, 'WITHSCORES', 'LIMIT', 0, 1)
      if last[2] then due = tonumber(last[2]) + 1 end
    end
  end
  -- Messages of a lower priority go after this one.
  local first = ahead
  if queued > 0 then first = first - redis.call('ZCOUNT', QUEUE, (priority + 1) * 1e15, '+inf') end
  if (redis.call('HGET', PACE, 'in_flight') or '') ~= '' then first = first + 1 end
  -- Fields that are 0 or empty are not written: readers take an absent field for 0 or empty.
  redis.call('HSET', MESSAGE, 'id', id, 'phone', phone, 'to', recipient, 'session', session, 'status', 'queued', 'accepted_at', now,
    'sequence', sequence + #jobs + 1, 'priority', priority, unpack(messages[n], 15))
  if deferred then redis.call('HSET', MESSAGE, 'deferred', 1) end
  if expires > 0 then
    redis.call('HSET', MESSAGE, 'expires_at', expires)
    redis.call('ZADD', EXPIRING, expires, id)
  end
  if fingerprint ~= '' then
    redis.call('HSET', IDEMPOTENCY, 'fingerprint', fingerprint, 'message', id)
    redis.call('PEXPIRE', IDEMPOTENCY, idempotency_ms)
  end
  if sender ~= session and (seen_sender or sender == '') then -- ack_message renews what is the same
    set_sender(AFFINITY, session)
    new_senders[AFFINITY] = session
  end
  emit_untrimmed(EVENTS, 'message.queued', now, 'session', session, 'message', id, 'phone', phone, 'note', '')
  jobs[#jobs + 1] = id
  local earlier = tonumber(unconfirmed[n] or 0) > now - 86400000 and 'unconfirmed' or ''
  local stranger = ''
  -- Asked where a warning depends on it alone: most phones need none, and every message would pay.
  if is_watched and (redis.call('SISMEMBER', CONTACTS, recipient) == 0 or redis.call('ZSCORE', UNANSWERED, recipient)) then stranger = 'stranger' end
  if due > 0 then
    local before, same = redis.call('ZCOUNT', LATER, '-inf', due), redis.call('ZCOUNT', LATER, due, due)
    redis.call('HSET', MESSAGE, 'due_at', due)
    redis.call('ZADD', LATER, due, id)
    return { 'scheduled', first, now, due, before, same, tonumber(redis.call('ZRANGE', LATER, 0, 0, 'WITHSCORES')[2]), earlier, stranger }
  end
  waiting[phone] = waits + 1
  return { 'accepted', first, now, earlier, stranger }
end

local answers = {}
for n = 1, #messages do
  -- An error in one message must not abort the batch: the jobs of the others are written below.
  local done, answer = pcall(admit, n)
  answers[n] = done and answer or { 'error', type(answer) == 'table' and answer.err or tostring(answer) }
end
if arrival > now then set_arrival(RATE, arrival, now) end
if #jobs > 0 then
  local counts = {}
  for phone, count in pairs(waiting) do
    counts[#counts + 1] = phone
    counts[#counts + 1] = count
  end
  if #counts > 0 then redis.call('HSET', WAITING, unpack(counts)) end
  redis.call('INCRBY', SEQUENCE, #jobs)
  redis.call('RPUSH', JOBS, unpack(jobs))
  redis.call('HINCRBY', COUNTS, 'accepted', #jobs)
  redis.call('HINCRBY', COUNTS, 'queued', #jobs)
  trim_events(EVENTS)
  redis.call('PUBLISH', 'dispatch:wake', 'jobs')
end
return answers
