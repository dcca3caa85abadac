-- uses: _message
-- claim_message: give a worker the released message of its session, with a lease; or the same one again if the answer was lost.
-- Atomic because checking the epoch and taking the message must be one step: a fenced worker must never take anything.
-- KEYS: the message layout  ARGV[4] epoch  ARGV[5] lease ms  ARGV[6] the worker's process, or empty
-- returns {'claimed', attempt, now} | {'fenced', current epoch} | {'empty'}
local seen_epoch, lease_ms, process = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: claim_epoch
redis.call('HDEL', SESSION, 'unclaimed') -- it asks, so it works
redis.call('HSET', SESSION, 'asked_at', now) -- guard: asked
-- A worker asks for the next when it is done with the last, so the answer was lost. Not for another process of the same epoch: it
-- knows nothing of the pause. Not once the message may have been written: confirm_write clears `claimed_by`.
local status, session, claim_epoch, claimed_by, attempts = unpack(redis.call('HMGET', MESSAGE, 'status', 'session', 'claim_epoch', 'claimed_by', 'attempts'))
local is_holder = status == 'sending' and session == SESSION_ID and claim_epoch == epoch
if is_holder and process ~= '' and claimed_by == process then -- guard: claim_again
  redis.call('ZADD', LEASES, now + lease_ms, ID)
  return { 'claimed', tonumber(attempts), now }
end
if redis.call('LINDEX', OUTBOX, 0) ~= ID then return { 'empty' } end -- guard: claim_head
-- Released when the session had another phone: from this one it would break the pace and the affinity of contacts to phones.
-- The record has the session's current phone; a caller that read it a moment too early asks again.
local phone = redis.call('HGET', SESSION, 'phone')
if phone ~= PHONE or redis.call('HGET', MESSAGE, 'phone') ~= phone then return { 'empty' } end -- guard: claim_phone
redis.call('LPOP', OUTBOX)
redis.call('ZADD', LEASES, now + lease_ms, ID)
local attempt = redis.call('HINCRBY', MESSAGE, 'attempts', 1)
redis.call('HSET', MESSAGE, 'claim_epoch', epoch, 'claimed_at', now, 'claimed_by', process)
redis.call('HDEL', MESSAGE, 'freed') -- from here on it is tied to this phone
set_status('sending', now, '')
return { 'claimed', attempt, now }
