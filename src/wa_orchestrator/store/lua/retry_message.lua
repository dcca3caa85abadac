-- uses: _message
-- retry_message: a dead letter goes back to the end of its queue, with the same WhatsApp id and fresh attempts.
-- Atomic because two people may press the button.
-- KEYS: the message layout, then KEYS[16] sequence  KEYS[17] opt-outs hash
-- ARGV[4] recipient  ARGV[5…] the reasons that told a person that another try may leave from another phone
-- returns {'queued'} | {'not_dead', status} | {'opted_out'}
local now = now_ms()
local known = redis.call('HMGET', MESSAGE, 'status', 'priority', 'reason')
if known[1] ~= 'failed' then return { 'not_dead', known[1] or 'unknown' } end -- guard: dead
if redis.call('HEXISTS', KEYS[17], ARGV[4]) == 1 then return { 'opted_out' } end -- guard: retry_opt_out
local sequence = redis.call('INCR', KEYS[16])
redis.call('HSET', MESSAGE, 'attempts', 0, 'crashes', 0, 'uncounted', 0, 'sequence', sequence, 'expires_at', 0)
for index = 5, #ARGV do
  if known[3] == ARGV[index] then redis.call('HSET', MESSAGE, 'freed', '1') end -- guard: retry_told
end
redis.call('ZREM', DEAD, ID)
redis.call('ZADD', QUEUE, tonumber(known[2]) * 1e15 + sequence, ID)
become('queued', now, 'RETRIED')
wake(now)
return { 'queued' }
