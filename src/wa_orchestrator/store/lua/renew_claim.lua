-- uses: _message
-- renew_claim: the holder of a lease is still at work.
-- Atomic because a lease that was taken back must not come alive again.
-- KEYS: the message layout  ARGV[4] epoch  ARGV[5] lease ms
-- returns {'renewed', until ms} | {'fenced', current epoch} | {'not_holder', status}
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= ARGV[4] then return { 'fenced', epoch } end -- guard: renew_epoch
local held = redis.call('HMGET', MESSAGE, 'status', 'claim_epoch', 'session')
if held[1] ~= 'sending' or held[3] ~= SESSION_ID or held[2] ~= epoch then return { 'not_holder', held[1] or 'unknown' } end -- guard: renew_holder
redis.call('ZADD', LEASES, now + tonumber(ARGV[5]), ID)
return { 'renewed', now + tonumber(ARGV[5]) }
