-- uses: _message
-- renew_claim: extend the lease of the worker that is sending the message.
-- Atomic because a lease that was taken back must not come alive again.
-- KEYS: the message layout  ARGV[4] epoch  ARGV[5] lease ms
-- returns {'renewed', until ms} | {'fenced', current epoch} | {'not_holder', status} | {'stranger'}
local seen_epoch, lease_ms = ARGV[4], tonumber(ARGV[5])
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: renew_epoch
local status, claim_epoch, session = unpack(redis.call('HMGET', MESSAGE, 'status', 'claim_epoch', 'session'))
if status and is_stranger(SESSION, SESSION_ID) then return { 'stranger' } end -- guard: renew_owner
if status ~= 'sending' or session ~= SESSION_ID or claim_epoch ~= epoch then return { 'not_holder', status or 'unknown' } end -- guard: renew_holder
redis.call('ZADD', LEASES, now + lease_ms, ID)
return { 'renewed', now + lease_ms }
