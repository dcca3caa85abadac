-- uses: _message
-- settle_message: end an open message after a restore as the journal beside the backups says, or as `unknown` if it may have left.
-- Atomic because it may stand in any of six places, also with a worker that is gone, and must leave exactly that one.
-- KEYS: the message layout, then KEYS[17] jobs list  KEYS[18] waiting hash  KEYS[19] scheduled zset
-- KEYS[20] later zset  KEYS[21] unconfirmed zset
-- KEYS[22] stats hash of the session's day  KEYS[23] of all sessions' day
-- ARGV[4] status: unknown | failed | expired | cancelled  ARGV[5] reason  ARGV[6] ms at which it may have left (0 = it did not)
-- returns {'ended'} | {'too_late', status} | {'unknown'}
local JOBS, WAITING, SCHEDULED, LATER, UNCONFIRMED, STATS, TOTALS = unpack(KEYS, 17, 23)
local final, reason, left_at = ARGV[4], ARGV[5], tonumber(ARGV[6])
local now = now_ms()
local status = redis.call('HGET', MESSAGE, 'status')
if not status then return { 'unknown' } end
if OVER[status] then return { 'too_late', status } end -- guard: settled_open
undo_release()
leave_waiting(JOBS, WAITING, SCHEDULED, LATER)
if left_at > 0 then redis.call('ZADD', SENT, left_at, ID .. '#restored') end -- guard: settled_counts
if final == 'unknown' or final == 'failed' then
  redis.call('HSET', MESSAGE, 'in_doubt', final == 'unknown' and '1' or '')
  fail_message(STATS, TOTALS, UNCONFIRMED, now, reason)
else
  set_status(final, now, reason)
end
return { 'ended' }
