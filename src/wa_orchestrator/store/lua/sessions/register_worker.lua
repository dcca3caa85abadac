-- uses: _message
-- register_worker: a new worker is about to start for a session. Its epoch rises, so everything an older worker does is refused from here on;
-- what the older one held returns to the front, or is given up if too many workers have died with it.
-- Atomic because between the two an old worker could still claim.
-- KEYS: the message layout (for the phone's message in flight, if any), then KEYS[17] lease of the control plane
-- KEYS[18] stats hash of the session's day  KEYS[19] of all sessions' day  KEYS[20] unconfirmed zset
-- ARGV[4] the lease's value as the caller holds it  ARGV[5] highest epoch that its directory has seen
-- ARGV[6] crashes after which a message fails, or empty if the older worker did not crash
-- returns {'registered', epoch} | {'not_leader'} | {'changed'} | {'unknown'}
local LEADER_LEASE, STATS, TOTALS, UNCONFIRMED = unpack(KEYS, 17, 20)
local held_lease, directory_epoch, most_crashes = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local now = now_ms()
if redis.call('EXISTS', SESSION) == 0 then return { 'unknown' } end
if redis.call('GET', LEADER_LEASE) ~= held_lease then return { 'not_leader' } end -- guard: leader
if (redis.call('HGET', PACE, 'in_flight') or '') ~= ID then return { 'changed' } end -- guard: register_seen
redis.call('HDEL', SESSION, 'unclaimed')
-- When Redis has lost its data, the directory still knows: a worker with a lower epoch would take itself for an old one.
local known_epoch = tonumber(redis.call('HGET', SESSION, 'epoch') or 0)
if directory_epoch > known_epoch then redis.call('HSET', SESSION, 'epoch', ARGV[5]) end -- guard: directory_epoch
local epoch = redis.call('HINCRBY', SESSION, 'epoch', 1)
redis.call('HINCRBY', SESSION, 'version', 1)
redis.call('HSET', SESSION, 'started_at', now)
local status, session = unpack(redis.call('HMGET', MESSAGE, 'status', 'session'))
if ID ~= '' and status == 'sending' and session == SESSION_ID then -- guard: take_back
  take_back(STATS, TOTALS, UNCONFIRMED, now, 'NEW_EPOCH', most_crashes)
end
return { 'registered', epoch }
