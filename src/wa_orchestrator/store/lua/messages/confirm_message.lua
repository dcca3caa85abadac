-- uses: _message
-- uses: _conversation
-- uses: _strangers
-- confirm_message: count a message that WhatsApp never confirmed as sent, because a person knows that the recipient has it.
-- Atomic because a receipt, a retry or a second person may come at the same moment: one of them settles it, and it is counted once.
-- KEYS: the message layout, then KEYS[17] stats hash of the session's day  KEYS[18] of all sessions' day
-- KEYS[19] contacts set  KEYS[20] affinity string  KEYS[21] unconfirmed zset
-- KEYS[22] zset of strangers written to who have not answered
-- returns {'became', status} | {'already', status} | {'too_late', status}
local STATS, TOTALS, CONTACTS, AFFINITY, UNCONFIRMED, UNANSWERED = unpack(KEYS, 17, 22)
local HAS_IT = { sent = true, delivered = true, read = true }
local now = now_ms()
local status, recipient, left_at = unpack(redis.call('HMGET', MESSAGE, 'status', 'to', 'claimed_at'))
if HAS_IT[status or ''] then return { 'already', status } end -- guard: confirm_once
if status ~= 'unknown' then return { 'too_late', status or 'cancelled' } end -- guard: confirm_unknown
redis.call('ZREM', DEAD, ID)
redis.call('ZREM', UNCONFIRMED, recipient)
count_message(STATS, TOTALS, 'sent')
keep_sender(AFFINITY)
count_stranger(CONTACTS, UNANSWERED, recipient, now)
-- It left at its last attempt, not when somebody said so; after a restore nobody knows when that was.
redis.call('HSET', MESSAGE, 'sent_at', string.format('%.0f', tonumber(left_at or '') or now))
set_status('sent', now, 'CONFIRMED')
return { 'became', 'sent' }
