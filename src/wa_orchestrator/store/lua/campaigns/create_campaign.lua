-- create_campaign: create a draft of a campaign from its staged recipients.
-- Atomic because its recipients expire by themselves until then: a server that dies while it stages them leaves nothing behind.
-- KEYS[1] campaign hash  KEYS[2] campaigns zset  KEYS[3] rows hash  KEYS[4] phones hash  KEYS[5] waiting zset
-- ARGV[1] id  ARGV[2] how many recipients were staged  ARGV[3…] fields and values
-- returns {'created'} | {'expired'}
local CAMPAIGN, CAMPAIGNS, ROWS, PHONES, WAITING = unpack(KEYS)
local now = now_ms()
if redis.call('ZCARD', WAITING) ~= tonumber(ARGV[2]) then return { 'expired' } end -- guard: campaign_staged
redis.call('HSET', CAMPAIGN, 'id', ARGV[1], 'state', 'draft', 'created_at', now, 'changed_at', now, unpack(ARGV, 3))
for _, key in ipairs({ ROWS, PHONES, WAITING }) do redis.call('PERSIST', key) end
redis.call('ZADD', CAMPAIGNS, now, ARGV[1])
return { 'created' }
