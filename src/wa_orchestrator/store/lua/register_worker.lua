-- uses: _message
-- register_worker: a new worker is about to start for a session. Its epoch rises, so everything an older worker does is refused from here on;
-- what the older one held returns to the front, and the pause starts again now, because WhatsApp may have that message already.
-- Atomic because between the two an old worker could still claim.
-- KEYS: the message layout (for the phone's message in flight, if any), then KEYS[17] lease of the control plane
-- ARGV[4] the lease's value as the caller holds it  ARGV[5] highest epoch that its directory has seen  ARGV[6…] further fields and values of the session
-- returns {'registered', epoch} | {'not_leader'} | {'changed'} | {'unknown'}
local LEADER_LEASE, held_lease, directory_epoch = KEYS[17], ARGV[4], tonumber(ARGV[5])
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
redis.call('HSET', SESSION, 'started_at', now, unpack(ARGV, 6))
local status, session, pause_ms = unpack(redis.call('HMGET', MESSAGE, 'status', 'session', 'pause_ms'))
if ID ~= '' and status == 'sending' and session == SESSION_ID then -- guard: take_back
  end_flight(now, tonumber(pause_ms or 0)) -- rearm: register
  redis.call('HINCRBY', MESSAGE, 'crashes', 1)
  redis.call('HSET', MESSAGE, 'in_doubt', '1')
  redis.call('ZADD', QUEUE, FRONT, ID)
  set_status('queued', now, 'NEW_EPOCH')
  wake_phone(now)
end
return { 'registered', epoch }
