-- uses: _session
-- move_phone: move all sessions of a phone (or one without a phone) to a proxy that an operator chose, with the phone's binding.
-- Atomic because at no instant may a proxy have more sessions than slots, or a phone two exits. Old slots are kept until the old workers have ended (release_slot).
-- KEYS[1] sticky  KEYS[2] sticky's history  KEYS[3] events  KEYS[4] sessions of the phone  KEYS[5] chosen proxy's hash  KEYS[6] its sessions
-- KEYS[7…] of each session: hash, its events, sessions of its proxy, temporary binding
-- ARGV[1] phone ('' = unknown)  ARGV[2] chosen proxy  ARGV[3] most per proxy  ARGV[4] 'now' = replace the workers, 'restart' = at their next restart
-- ARGV[5] reason  ARGV[6…] of each session: id, its proxy as seen, its version as seen
-- returns {'moved', proxy} | {'bad'} | {'no_room'} | {'changed'}
local STICKY, STICKY_HISTORY, EVENTS, OF_PHONE, PROXY, OF_PROXY = unpack(KEYS, 1, 6)
local phone, chosen, per_proxy, when, reason = unpack(ARGV, 1, 5)
local count, newcomers = (#ARGV - 5) / 3, 0
for n = 0, count - 1 do
  local id, seen_proxy, seen_version = unpack(ARGV, 6 + 3 * n, 8 + 3 * n)
  local current, version = unpack(redis.call('HMGET', KEYS[7 + 4 * n], 'proxy', 'version'))
  if (current or '') ~= seen_proxy or version ~= seen_version then return { 'changed' } end -- guard: chosen_seen
  if redis.call('SISMEMBER', OF_PROXY, id) == 0 then newcomers = newcomers + 1 end
end
if phone ~= '' and redis.call('SCARD', OF_PHONE) ~= count then return { 'changed' } end -- guard: chosen_siblings
if redis.call('HGET', PROXY, 'status') ~= 'OK' then return { 'bad' } end -- guard: chosen_healthy
if redis.call('SCARD', OF_PROXY) + newcomers > tonumber(per_proxy) then return { 'no_room' } end -- guard: chosen_room
local now = now_ms()
for n = 0, count - 1 do
  local id, old = unpack(ARGV, 6 + 3 * n, 7 + 3 * n)
  local SESSION, HISTORY, OF_OLD_PROXY, TEMPORARY = unpack(KEYS, 7 + 4 * n, 10 + 4 * n)
  if old ~= chosen then
    local leaving, epoch, linked = unpack(redis.call('HMGET', SESSION, 'leaving', 'epoch', 'first_connected_at'))
    -- The worker that runs may still be on a proxy that the session left before: then it is that slot which is kept, and not this one.
    if leaving and leaving ~= '' then
      redis.call('SREM', OF_OLD_PROXY, id) -- guard: chosen_unused_slot
      if leaving == chosen then redis.call('HDEL', SESSION, 'leaving') end -- guard: chosen_back
    elseif old ~= '' then
      redis.call('HSET', SESSION, 'leaving', old) -- guard: chosen_keeps_slot
    end
    redis.call('SADD', OF_PROXY, id)
    redis.call('HINCRBY', SESSION, 'version', 1)
    -- Before the scan nothing binds the phone: the choice is remembered, and wins when it is linked.
    local given = ''
    if (tonumber(linked) or 0) == 0 then given = 'given' end -- guard: chosen_given
    redis.call('HSET', SESSION, 'proxy', chosen, 'direct', '', 'proxy_given', given)
    if when == 'now' then redis.call('HSET', SESSION, 'restart_epoch', epoch or '0') end -- guard: chosen_now
    if phone == '' then redis.call('SET', TEMPORARY, chosen) end -- guard: chosen_temporary
    emit_and_keep(HISTORY, EVENTS, 'session.moved', now, 'session', id, 'reason', reason, 'from', old, 'to', chosen, 'phone', phone)
  end
end
local bound = phone ~= '' and redis.call('GET', STICKY) or ''
if phone ~= '' and bound ~= chosen then -- guard: chosen_binds
  redis.call('SET', STICKY, chosen)
  redis.call('XADD', STICKY_HISTORY, 'MAXLEN', '~', 100, '*', 'from', bound, 'to', chosen, 'reason', reason, 'session', ARGV[6], 'at', now)
end
return { 'moved', chosen }
