-- uses: _message
-- claim_message: a worker takes the released message of its session, with a lease.
-- Atomic because the look at the epoch and the taking must be one step: a fenced worker must never take anything.
-- KEYS: the message layout  ARGV[4] epoch  ARGV[5] lease ms
-- returns {'claimed', attempt, now} | {'fenced', current epoch} | {'empty'}
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= ARGV[4] then return { 'fenced', epoch } end -- guard: claim_epoch
if redis.call('LINDEX', OUTBOX, 0) ~= ID then return { 'empty' } end -- guard: claim_head
-- Released to it when it had another phone: from this one it would break the pace, and the ties of who was written from where.
-- Its record says which one it has; the caller may have looked a moment too early, and then looks again.
local phone = redis.call('HGET', SESSION, 'phone')
if phone ~= PHONE or redis.call('HGET', MESSAGE, 'phone') ~= phone then return { 'empty' } end -- guard: claim_phone
redis.call('LPOP', OUTBOX)
redis.call('ZADD', LEASES, now + tonumber(ARGV[5]), ID)
local attempt = redis.call('HINCRBY', MESSAGE, 'attempts', 1)
redis.call('HSET', MESSAGE, 'claim_epoch', epoch, 'claimed_at', now)
redis.call('HDEL', MESSAGE, 'freed') -- from here on it is tied to this phone
become('sending', now, '')
return { 'claimed', attempt, now }
