-- uses: _session
-- bind_phone: a worker reports CONNECTED with its phone number; the temporary binding becomes the phone's sticky one, or yields to it.
-- All sessions of a phone leave through one proxy: it becomes the sticky one only if those that follow find room there. Where neither
-- proxy has room for all, the session waits for a slot on the phone's own one.
-- Atomic because phone -> proxy, phone -> session, the slots and the status must never disagree.
-- KEYS[1] session hash  KEYS[2] temporary binding  KEYS[3] sticky  KEYS[4] sticky's history  KEYS[5] sessions of the phone  KEYS[6] active sessions
-- KEYS[7] session's events  KEYS[8] events  KEYS[9] hash of the sticky proxy  KEYS[10] sessions of the sticky proxy  KEYS[11] due zset
-- KEYS[12] sessions of the phone it had  KEYS[13] sessions of its own proxy
-- ARGV[1] session id  ARGV[2] epoch  ARGV[3] phone  ARGV[4] sticky proxy as seen ('' = none)  ARGV[5] own proxy as seen  ARGV[6] most per proxy
-- ARGV[7] most per phone  ARGV[8] 'given' = the operator chose the proxy, else ''  ARGV[9] phone it had, as seen
-- ARGV[10] version the decision saw  ARGV[11] other sessions of the phone as seen
-- ARGV[12] how many of those have a slot elsewhere and would follow to its own proxy  ARGV[13…] further fields and values
-- Whether the session may have this phone was decided (domain/sessions/phone_change.py) for that version and those sessions.
-- returns {'bound', how} (how: first | same | given | sticky_bad | sticky_full) | {'moved', proxy} | {'waits'} | {'phone_full', count} | {'changed'} | {'fenced', epoch}
local SESSION, TEMPORARY, STICKY, STICKY_HISTORY, OF_PHONE, ACTIVE, HISTORY, EVENTS, STICKY_PROXY, OF_STICKY_PROXY, DUE, OF_OLD_PHONE, OF_OWN_PROXY = unpack(KEYS)
local id, epoch, phone, sticky, own, per_proxy, per_phone, given, seen_phone, seen_version, seen_others, followers = unpack(ARGV, 1, 12)
local now = now_ms()
local known_epoch, version, proxy, first_connected_at, old_phone, left_phone, status, leaving =
  unpack(redis.call('HMGET', SESSION, 'epoch', 'version', 'proxy', 'first_connected_at', 'phone', 'left_phone', 'status', 'leaving'))
if known_epoch ~= epoch then return { 'fenced', known_epoch or '0' } end -- guard: bind_epoch
if (redis.call('GET', STICKY) or '') ~= sticky or proxy ~= own then return { 'changed' } end -- guard: bind_seen
if version ~= seen_version then return { 'changed' } end -- guard: bind_version
local leaves = old_phone and old_phone ~= '' and old_phone ~= phone
if leaves and old_phone ~= seen_phone then return { 'changed' } end -- guard: bind_was
local others = redis.call('SCARD', OF_PHONE) - redis.call('SISMEMBER', OF_PHONE, id)
if others ~= tonumber(seen_others) then return { 'changed' } end -- guard: bind_others
if others >= tonumber(per_phone) then return { 'phone_full', others } end -- guard: bind_phone_limit
redis.call('HDEL', SESSION, 'code_at', 'named_phone', 'reported_phone') -- guard: code_used
-- Messages that wait at the old phone are rerouted afterwards; recorded here, so that no crash can lose it. All such phones, the last one last.
if leaves then -- guard: bind_leaves
  redis.call('SREM', OF_OLD_PHONE, id)
  redis.call('HSET', SESSION, 'left_phone', (left_phone and left_phone .. ' ' or '') .. old_phone)
end
local how = 'same'
local takes_all = true
if followers ~= '0' and redis.call('SCARD', OF_OWN_PROXY) + tonumber(followers) > tonumber(per_proxy) then takes_all = false end -- guard: bind_takes_all
local is_sticky_ok = redis.call('HGET', STICKY_PROXY, 'status') == 'OK'
if sticky == '' then
  how = 'first'
elseif sticky ~= own and given == 'given' and (takes_all or not is_sticky_ok) then
  how = 'given'
elseif sticky ~= own and not is_sticky_ok then
  how = 'sticky_bad'
elseif sticky ~= own then
  local is_full = redis.call('SCARD', OF_STICKY_PROXY) - redis.call('SISMEMBER', OF_STICKY_PROXY, id) >= tonumber(per_proxy)
  if is_full and takes_all then
    how = 'sticky_full'
  else
    redis.call('SADD', OF_PHONE, id)
    redis.call('HINCRBY', SESSION, 'version', 1)
    -- The worker still uses the other proxy: that it must be replaced is written in the same step, so no crash can lose it;
    -- and it keeps its slot there until it has ended (release_slot). With one that it left before, it is that slot which is kept.
    local kept = leaving or ''
    if kept == own then kept = '' end -- guard: bind_keeps_slot_back
    if kept == '' then kept = own else redis.call('SREM', OF_OWN_PROXY, id) end -- guard: bind_keeps_slot
    redis.call('HSET', SESSION, 'proxy', is_full and '' or sticky, 'phone', phone, 'proxy_given', '', 'restart_epoch', epoch, 'leaving', kept)
    if is_full then
      redis.call('DEL', TEMPORARY)
      if (tonumber(first_connected_at) or 0) == 0 then redis.call('HSET', SESSION, 'first_connected_at', now) end -- it waits as a linked one
      emit_and_keep(HISTORY, EVENTS, 'session.slot_lost', now, 'session', id, 'reason', 'sticky_full', 'from', own, 'phone', phone)
      return { 'waits' }
    end
    redis.call('SADD', OF_STICKY_PROXY, id)
    redis.call('SET', TEMPORARY, sticky)
    emit_and_keep(HISTORY, EVENTS, 'session.moved', now, 'session', id, 'reason', 'STICKY_PROXY', 'from', own, 'to', sticky, 'phone', phone)
    return { 'moved', sticky }
  end
end
if how ~= 'same' and own ~= '' then
  redis.call('SET', STICKY, own)
  redis.call('XADD', STICKY_HISTORY, 'MAXLEN', '~', 100, '*', 'from', sticky, 'to', own, 'reason', how, 'session', id, 'at', now)
  emit_and_keep(HISTORY, EVENTS, 'phone.bound', now, 'session', id, 'reason', how, 'from', sticky, 'to', own, 'phone', phone)
end
redis.call('DEL', TEMPORARY)
redis.call('SADD', OF_PHONE, id)
redis.call('SADD', ACTIVE, id)
redis.call('HINCRBY', SESSION, 'version', 1)
redis.call('HSET', SESSION, 'phone', phone, 'proxy_given', '', 'banned', '', 'status', 'connected', 'reason', '', 'connected_at', now, 'last_ping_at', now, unpack(ARGV, 13))
-- What nobody claimed before says nothing of a worker that could not and now can: it may have been cut off with its relay.
redis.call('HDEL', SESSION, 'unclaimed') -- guard: unclaimed_anew
if (tonumber(first_connected_at) or 0) == 0 then redis.call('HSET', SESSION, 'first_connected_at', now) end
if status ~= 'connected' then
  redis.call('HSET', SESSION, 'changed_at', now)
  emit_and_keep(HISTORY, EVENTS, 'session.connected', now, 'session', id, 'reason', '', 'what', 'CONNECTED', 'phone', phone)
end
redis.call('ZADD', DUE, 'LT', now, phone)
redis.call('PUBLISH', 'dispatch:wake', phone)
return { 'bound', how }
