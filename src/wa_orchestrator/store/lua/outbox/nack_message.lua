-- uses: _message
-- uses: _answer
-- nack_message: carry out the server's decision after a failed attempt: back to the front after a backoff, set aside
-- until WhatsApp lets the phone write to new contacts, or failed for good.
-- Atomic because only the holder with the current epoch may nack, and the message must be in exactly one place afterwards.
-- KEYS: the message layout, then KEYS[17] stats hash of the session's day  KEYS[18] of all sessions' day  KEYS[19] unconfirmed zset
-- KEYS[20] hash of the conversation, if there is one  KEYS[21] index of conversations  KEYS[22] contacts set
-- ARGV[4] epoch  ARGV[5] verdict: retry | set_aside | fail  ARGV[6] backoff ms  ARGV[7] reason  ARGV[8] attempts the verdict was made for
-- ARGV[9] whether the recipient may have it: raised (this attempt got no answer, if it was written) | settled (they cannot) | kept (as before)
-- ARGV[10] how often in a row WhatsApp has now asked the phone to slow down (0 = it did not)
-- ARGV[11] what the worker reported, kept beside the timeline's entry of this instant; '' for nothing
-- ARGV[12…] for set_aside: the names by which the recipient is known
-- returns {'became', status} | {'fenced', current epoch} | {'not_holder', status} | {'stranger'}
local STATS, TOTALS, UNCONFIRMED, CONVERSATION, CONVERSATIONS, CONTACTS = unpack(KEYS, 17, 22)
local seen_epoch, verdict, backoff_ms, reason, seen_attempts, doubt = ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local slowdowns, answer_code = tonumber(ARGV[10]), ARGV[11] or ''
local MOST_ANSWERS = 2000 -- characters; the newest are kept
local FIRST_NAME = 12
-- WhatsApp does not let the phone write to this person: counted for the number's health.
local UNWELCOME = { REACHOUT_LOCKED = true, NO_TRUST_TOKEN = true, NEW_CHAT_CAP = true }
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: nack_epoch
local status, claim_epoch, attempts, pause_ms, session = unpack(redis.call('HMGET', MESSAGE, 'status', 'claim_epoch', 'attempts', 'pause_ms', 'session'))
if status and is_stranger(SESSION, SESSION_ID) then return { 'stranger' } end -- guard: nack_owner
local is_holder = status == 'sending' and session == SESSION_ID and claim_epoch == epoch and attempts == seen_attempts
if not is_holder then return { 'not_holder', status or 'unknown' } end -- guard: nack_holder
end_flight(now, math.max(tonumber(pause_ms or 0), backoff_ms))
wake_phone(now)
if slowdowns > 0 then redis.call('HSET', PACE, 'slowdowns', slowdowns) end -- guard: slower
if slowdowns == 1 then
  emit(EVENTS, 'session.slowed_down', now, 'session', SESSION_ID, 'phone', PHONE, 'until', string.format('%.0f', now + backoff_ms))
end
local in_doubt = doubt == 'raised' and '1' or ''
if doubt == 'raised' and not may_be_written() then doubt = 'kept' end -- guard: unwritten_attempt
if doubt ~= 'kept' then redis.call('HSET', MESSAGE, 'in_doubt', in_doubt) end -- guard: doubt
if answer_code ~= '' then -- guard: answer_code
  local answers = (redis.call('HGET', MESSAGE, 'answers') or '') .. ' ' .. string.format('%.0f', now) .. ':' .. answer_code
  if #answers > MOST_ANSWERS then answers = string.gsub(string.sub(answers, -MOST_ANSWERS), '^%S*', '') end
  redis.call('HSET', MESSAGE, 'answers', (string.gsub(answers, '^ +', '')))
end
if UNWELCOME[reason] then count_message(STATS, TOTALS, 'refused') end -- guard: refusal
if verdict == 'fail' then
  local final = fail_message(STATS, TOTALS, UNCONFIRMED, now, reason)
  if final == 'failed' then wait_again(CONVERSATIONS, CONVERSATION, ID) end -- guard: failed_answer
  return { 'became', final }
end
redis.call('ZADD', verdict == 'set_aside' and ASIDE or QUEUE, FRONT, ID)
-- To WhatsApp the recipient is new, whatever we thought: what follows to them waits behind this one.
if verdict == 'set_aside' then redis.call('SREM', CONTACTS, unpack(ARGV, FIRST_NAME)) end -- guard: aside_in_order
set_status('queued', now, reason)
return { 'became', 'queued' }
