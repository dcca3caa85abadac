-- uses: _message
-- uses: _answer
-- cancel_message: end a message that no worker has claimed (cancelled, expired, or failed because no session can send it); as unknown if it
-- was tried and may have arrived.
-- Atomic because it may stand in any of five places and must leave exactly that one.
-- KEYS: the message layout, then KEYS[17] jobs list  KEYS[18] waiting hash  KEYS[19] scheduled zset
-- KEYS[20] later zset  KEYS[21] unconfirmed zset
-- KEYS[22] hash of the conversation, if there is one  KEYS[23] index of conversations
-- for failed ones: KEYS[24] stats hash of the session's day  KEYS[25] of all sessions' day
-- ARGV[4] status: cancelled | expired | failed  ARGV[5] reason  ARGV[6] 'due' = only if its expiry has passed, '' = at once
-- returns {'ended'} | {'too_late', status} | {'unknown'} | {'early'} | {'moved'}
local JOBS, WAITING, SCHEDULED, LATER, UNCONFIRMED, CONVERSATION, CONVERSATIONS, STATS, TOTALS = unpack(KEYS, 17, 25)
local final, reason, when = ARGV[4], ARGV[5], ARGV[6]
local now = now_ms()
local status, expires_at = unpack(redis.call('HMGET', MESSAGE, 'status', 'expires_at'))
if not status then return { 'unknown' } end
if status ~= 'queued' and status ~= 'scheduled' then return { 'too_late', status } end -- guard: not_claimed
if has_moved() then return { 'moved' } end -- guard: cancel_place
if when == 'due' and tonumber(expires_at or 0) > now then return { 'early' } end -- guard: expired
if status == 'scheduled' then undo_release() end
leave_waiting(JOBS, WAITING, SCHEDULED, LATER)
if final == 'failed' then
  final = fail_message(STATS, TOTALS, UNCONFIRMED, now, reason)
else
  final = end_unsent(UNCONFIRMED, now, final, reason)
end
wake_phone(now)
if final ~= 'unknown' then wait_again(CONVERSATIONS, CONVERSATION, ID) end -- guard: unsent_answer
return { 'ended' }
