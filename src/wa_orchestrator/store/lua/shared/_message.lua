-- uses: _event
-- uses: _statuses
-- Shared by all scripts about one message. Their keys come in one order, so that no script can mix them up:
-- KEYS[1] message hash    KEYS[2] timeline list   KEYS[3] counts hash     KEYS[4] events stream   KEYS[5] queue zset
-- KEYS[6] set-aside zset  KEYS[7] outbox list     KEYS[8] leases zset     KEYS[9] pace hash       KEYS[10] sent zset
-- KEYS[11] due zset       KEYS[12] session hash   KEYS[13] ended zset     KEYS[14] expiring zset  KEYS[15] dead zset
-- KEYS[16] statuses zset
-- ARGV[1] message id      ARGV[2] phone           ARGV[3] session id      further ones: see the script
local MESSAGE, TIMELINE, COUNTS, EVENTS, QUEUE, ASIDE, OUTBOX, LEASES, PACE, SENT, DUE, SESSION, ENDED, EXPIRING, DEAD, STATUSES = unpack(KEYS, 1, 16)
local ID, PHONE, SESSION_ID = ARGV[1], ARGV[2], ARGV[3]
local FRONT = 0 -- a score before every (priority, sequence); one message of a phone is in flight, so one at most is here
local OVER = { sent = true, delivered = true, read = true, failed = true, unknown = true, expired = true, cancelled = true }

-- add_to_timeline: append `<ms> <status> <note>`; the last 60 entries are kept.
local function add_to_timeline(now, status, note)
  redis.call('RPUSH', TIMELINE, string.format('%.0f', now) .. ' ' .. status .. ' ' .. note)
  redis.call('LTRIM', TIMELINE, -60, -1)
end

-- set_status: write the message's new status, its count, its timeline and the event.
local function set_status(status, now, note)
  local old, accepted_at, session_id = unpack(redis.call('HMGET', MESSAGE, 'status', 'accepted_at', 'session'))
  remove_status(STATUSES, session_id, old, accepted_at, ID)
  add_status(STATUSES, session_id, status, accepted_at, ID)
  redis.call('HINCRBY', COUNTS, old, -1)
  redis.call('HINCRBY', COUNTS, status, 1)
  redis.call('HSET', MESSAGE, 'status', status, 'reason', note)
  add_to_timeline(now, status, note)
  if OVER[status] then
    redis.call('ZADD', ENDED, now, ID)
    redis.call('ZREM', EXPIRING, ID)
  else
    redis.call('ZREM', ENDED, ID)
  end
  emit(EVENTS, 'message.' .. status, now, 'session', SESSION_ID, 'message', ID, 'phone', PHONE, 'note', note)
end

-- count_message: add it to the counts of its session's day, and to those of all sessions together on that day.
-- Both are kept for 400 days, from the first of each status.
local function count_message(stats, totals, status)
  if redis.call('HINCRBY', stats, status, 1) == 1 then redis.call('EXPIRE', stats, 34560000) end
  if redis.call('HINCRBY', totals, 'all:' .. status, 1) == 1 then redis.call('EXPIRE', totals, 34560000) end
end

-- is_in_doubt: whether its recipient may have it although WhatsApp never said so.
local function is_in_doubt()
  return redis.call('HGET', MESSAGE, 'in_doubt') == '1'
end

-- may_be_written: whether the worker that holds it may have written it. One that names its process asks first, and then
-- confirm_write clears the name.
local function may_be_written()
  return (redis.call('HGET', MESSAGE, 'claimed_by') or '') == ''
end

-- end_in_doubt: it ends, and nobody knows whether its recipient has it: a person decides.
-- `unconfirmed` has the recipients of the last day who may have something that WhatsApp never confirmed.
local function end_in_doubt(unconfirmed, now, reason)
  redis.call('ZADD', DEAD, now, ID)
  redis.call('ZADD', unconfirmed, now, redis.call('HGET', MESSAGE, 'to'))
  redis.call('ZREMRANGEBYSCORE', unconfirmed, '-inf', now - 86400000)
  set_status('unknown', now, reason)
end

-- end_unsent: it ends as cancelled or expired, unless it was tried and its recipient may have it. Returns its status.
local function end_unsent(unconfirmed, now, status, reason)
  if is_in_doubt() then -- guard: unsent_in_doubt
    end_in_doubt(unconfirmed, now, reason)
    return 'unknown'
  end
  set_status(status, now, reason)
  return status
end

-- fail_message: move it to the dead letters and count it; returns its status: failed, or unknown if the recipient may have it.
local function fail_message(stats, totals, unconfirmed, now, reason)
  if is_in_doubt() then -- guard: in_doubt
    count_message(stats, totals, 'unknown')
    end_in_doubt(unconfirmed, now, reason)
    return 'unknown'
  end
  redis.call('ZADD', DEAD, now, ID)
  count_message(stats, totals, 'failed')
  set_status('failed', now, reason)
  return 'failed'
end

-- has_moved: whether the message belongs to another phone or session than the caller saw, so that the keys are not its own.
local function has_moved()
  local current = redis.call('HMGET', MESSAGE, 'phone', 'session')
  return current[1] ~= PHONE or current[2] ~= SESSION_ID
end

-- is_stranger: whether a session may not speak for the message: it is another session's, and of another phone. Sessions of one
-- phone are one account, so receipts for what one of them sent reach the others too.
local function is_stranger(session, session_id)
  local phone, owner = unpack(redis.call('HMGET', MESSAGE, 'phone', 'session'))
  return owner ~= session_id and (not phone or phone ~= redis.call('HGET', session, 'phone'))
end

-- has_opted_out: whether the recipient wants no more messages, from any phone of ours or from this one.
local function has_opted_out(opt_outs, recipient)
  local everywhere, here = unpack(redis.call('HMGET', opt_outs, recipient, PHONE .. ' ' .. recipient))
  if here then return true end -- guard: opt_out_here
  return everywhere
end

-- has_opted_out_by: whether the recipient did under either name: the one that the message has, or the other one (the same for none).
local function has_opted_out_by(opt_outs, other_name, to)
  if other_name ~= to and has_opted_out(opt_outs, other_name) then return true end -- guard: opt_out_by_name
  return has_opted_out(opt_outs, to)
end

-- leave_waiting: take a waiting message from the place where it waits: the jobs, the schedule, the queue, or set aside.
local function leave_waiting(jobs, waiting, scheduled, later)
  local is_now = tonumber(redis.call('HGET', MESSAGE, 'due_at') or 0) == 0
  if redis.call('LREM', jobs, 1, ID) > 0 and is_now and redis.call('HINCRBY', waiting, PHONE, -1) <= 0 then redis.call('HDEL', waiting, PHONE) end
  for _, place in ipairs({ scheduled, later, QUEUE, ASIDE }) do redis.call('ZREM', place, ID) end
end

-- wake_phone: make the phone due now, unless it is due earlier.
local function wake_phone(now)
  redis.call('ZADD', DUE, 'LT', now, PHONE)
  redis.call('PUBLISH', 'dispatch:wake', PHONE)
end

-- A pause of a record without a length (of an earlier version) is at most this long.
local LONGEST_SILENCE_MS = 600000

-- silence: the phone sends nothing for so long. The length is kept beside the end, see silence_end.
local function silence(now, silence_ms)
  redis.call('HSET', PACE, 'silent_until', now + silence_ms, 'silence_ms', silence_ms)
end

-- silence_end: the end of the phone's pause. One that would last longer than it is has been overtaken by the clock, which was
-- set back: then it starts again now, so that the phone is neither silent for hours nor breaks its pause.
local function silence_end(now)
  local ends, length = unpack(redis.call('HMGET', PACE, 'silent_until', 'silence_ms'))
  ends, length = tonumber(ends or 0), tonumber(length or LONGEST_SILENCE_MS)
  if ends > now + length then -- guard: silence_length
    silence(now, length)
    return now + length
  end
  return ends
end

-- wake_after_pause: make the phone due when its pause ends. A dispatcher looks every two seconds by itself, so only a shorter pause
-- is announced. One that is due earlier may have been taken by a dispatcher that still saw the message in flight: that one is to see
-- that the phone was woken, or it would put it to sleep.
local function wake_after_pause(now)
  local ends = silence_end(now)
  local due = redis.call('ZSCORE', DUE, PHONE)
  if due and tonumber(due) < ends then return wake_phone(now) end
  redis.call('ZADD', DUE, ends, PHONE)
  if ends < now + 2000 then redis.call('PUBLISH', 'dispatch:wake', PHONE) end
end

-- end_flight: no message of this phone is in flight any more; the pause starts now.
-- The member's score moves to now, the latest instant at which WhatsApp may have seen this attempt.
local function end_flight(now, silence_ms)
  local releases = redis.call('HGET', MESSAGE, 'releases') or '0'
  redis.call('ZADD', SENT, 'XX', now, ID .. '#' .. releases)
  redis.call('HSET', PACE, 'in_flight', '')
  silence(now, silence_ms)
  redis.call('LREM', OUTBOX, 0, ID)
  redis.call('ZREM', LEASES, ID)
end

-- take_back: the worker that held it is gone. It returns to the front. If the worker may have written it, WhatsApp may have it
-- already; the pause starts again now in any case.
-- A message with which `most_crashes` workers have died is given up instead: it may be what kills them. nil: this worker did not
-- die, it was replaced. Returns the message's status.
local function take_back(stats, totals, unconfirmed, now, note, most_crashes)
  end_flight(now, tonumber(redis.call('HGET', MESSAGE, 'pause_ms') or 0)) -- rearm: take_back
  local is_written = true
  if not may_be_written() then is_written = false end -- guard: unwritten_is_no_doubt
  if is_written then redis.call('HSET', MESSAGE, 'in_doubt', '1') end
  wake_phone(now)
  local times = redis.call('HINCRBY', MESSAGE, most_crashes and 'crashes' or 'uncounted', 1)
  if most_crashes and times >= most_crashes then return fail_message(stats, totals, unconfirmed, now, 'WORKER_CRASHED') end -- guard: poison
  redis.call('ZADD', QUEUE, FRONT, ID)
  set_status('queued', now, note)
  return 'queued'
end

-- undo_release: it was released but never claimed, so WhatsApp cannot have seen it: it does not count against the limits.
local function undo_release()
  redis.call('ZREM', SENT, ID .. '#' .. (redis.call('HGET', MESSAGE, 'releases') or '0'))
  redis.call('HSET', PACE, 'in_flight', '')
  redis.call('LREM', OUTBOX, 0, ID)
  redis.call('ZREM', LEASES, ID)
end
