-- replace_webhook: write a webhook's record anew, if it is still the one that the caller has read.
-- Atomic because it may be deleted or changed meanwhile: a record must not come back, nor a secret be lost.
-- KEYS[1] webhooks  hash id → JSON  ARGV[1] webhook id  ARGV[2] record as it was read  ARGV[3] new record
-- returns {'replaced'} | {'changed'}
local WEBHOOKS, webhook_id = KEYS[1], ARGV[1]
if redis.call('HGET', WEBHOOKS, webhook_id) ~= ARGV[2] then return { 'changed' } end -- guard: webhook_unchanged
redis.call('HSET', WEBHOOKS, webhook_id, ARGV[3])
return { 'replaced' }
