-- uses: _event
-- change_campaign: change the state of a campaign, and append the event.
-- Atomic because a person and the server may change it at the same moment: the second one must look again.
-- KEYS[1] campaign hash  KEYS[2] set of active campaigns  KEYS[3] events stream
-- ARGV[1] id  ARGV[2] state it was seen in  ARGV[3] new state  ARGV[4] why it pauses ('' = it does not)  ARGV[5] phones banned by now, JSON
-- ARGV[6] type of the event
-- returns {'changed'} | {'differs', state} | {'unknown'}
local CAMPAIGN, ACTIVE, EVENTS = KEYS[1], KEYS[2], KEYS[3]
local id, seen, state, why, bans, kind = unpack(ARGV)
local now = now_ms()
local is, started_at = unpack(redis.call('HMGET', CAMPAIGN, 'state', 'started_at'))
if not is then return { 'unknown' } end
if is ~= seen then return { 'differs', is } end -- guard: campaign_seen
redis.call('HSET', CAMPAIGN, 'state', state, 'why', why, 'changed_at', now)
if state == 'sending' then redis.call('HSET', CAMPAIGN, 'known_bans', bans, 'started_at', started_at or now) end
if state == 'sending' or started_at then redis.call('SADD', ACTIVE, id) end
if state == 'done' or state == 'cancelled' then redis.call('HSET', CAMPAIGN, 'ended_at', now) end
emit(EVENTS, kind, now, 'campaign', id, 'state', state, 'reason', why)
return { 'changed' }
