-- uses: _message
-- claim_message: a worker takes the released message of its session, with a lease.
-- Atomic because checking the epoch and taking the message must be one step: a fenced worker must never take anything.
-- KEYS: the message layout  ARGV[4] epoch  ARGV[5] lease ms
-- returns {'claimed', attempt, now} | {'fenced', current epoch} | {'empty'}
local seen_epoch, lease_ms = ARGV[4], tonumber(ARGV[5])
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: claim_epoch
redis.call('HDEL', SESSION, 'unclaimed') -- it asks, so it works
if redis.call('LINDEX', OUTBOX, 0) ~= ID then return { 'empty' } end -- guard: claim_head
-- Released when the session had another phone: from this one it would break the pace and the affinity of contacts to phones.
-- The record has the session's current phone; a caller that read it a moment too early asks again.
local phone = redis.call('HGET', SESSION, 'phone')
if phone ~= PHONE or redis.call('HGET', MESSAGE, 'phone') ~= phone then return { 'empty' } end -- guard: claim_phone
redis.call('LPOP', OUTBOX)
redis.call('ZADD', LEASES, now + lease_ms, ID)
local attempt = redis.call('HINCRBY', MESSAGE, 'attempts', 1)
redis.call('HSET', MESSAGE, 'claim_epoch', epoch, 'claimed_at', now)
redis.call('HDEL', MESSAGE, 'freed') -- from here on it is tied to this phone
set_status('sending', now, '')
return { 'claimed', attempt, now }
