-- uses: _message
-- nack_message: the holder could not send. The server has decided: back to the front after a while, or failed for good.
-- Atomic because only the holder with the current epoch may say so, and the message must be in exactly one place afterwards.
-- KEYS: the message layout, then KEYS[16] stats hash of the day
-- ARGV[4] epoch  ARGV[5] verdict: retry | fail  ARGV[6] backoff ms  ARGV[7] reason  ARGV[8] attempts the verdict was made for
-- returns {'queued'} | {'failed'} | {'fenced', current epoch} | {'not_holder', status}
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= ARGV[4] then return { 'fenced', epoch } end -- guard: nack_epoch
local held = redis.call('HMGET', MESSAGE, 'status', 'claim_epoch', 'attempts', 'pause_ms', 'session')
local is_holder = held[1] == 'sending' and held[5] == SESSION_ID and held[2] == epoch and held[3] == ARGV[8]
if not is_holder then return { 'not_holder', held[1] or 'unknown' } end -- guard: nack_holder
land(now, math.max(tonumber(held[4] or 0), tonumber(ARGV[6])))
wake(now)
if ARGV[5] == 'retry' then
  redis.call('ZADD', QUEUE, FRONT, ID)
  become('queued', now, ARGV[7])
  return { 'queued' }
end
redis.call('ZADD', DEAD, now, ID)
redis.call('HINCRBY', KEYS[16], 'failed', 1)
redis.call('EXPIRE', KEYS[16], 34560000)
become('failed', now, ARGV[7])
return { 'failed' }
