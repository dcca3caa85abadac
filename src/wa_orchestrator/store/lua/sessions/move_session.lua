-- uses: _session
-- move_session: move a session from its proxy to a slot on another one, with its phone's binding.
-- Atomic because at no instant may a proxy have more sessions than slots. The old slot is kept until the old worker has ended (release_slot).
-- KEYS[1] session hash  KEYS[2] sessions of the old proxy  KEYS[3] sticky  KEYS[4] sticky's history  KEYS[5] session's events  KEYS[6] events
-- KEYS[7] temporary binding  KEYS[8…] candidates: proxy hash, sessions of that proxy, …
-- ARGV[1] session id  ARGV[2] old proxy ('' = it waits without one)  ARGV[3] most per proxy  ARGV[4] phone ('' = unknown)  ARGV[5] reason
-- ARGV[6] version the decision saw ('' = any)  ARGV[7] number of candidates n  ARGV[8…] their ids
-- returns {'moved', proxy} | {'no_room'} | {'changed', proxy}
local SESSION, OF_OLD_PROXY, STICKY, STICKY_HISTORY, HISTORY, EVENTS, TEMPORARY = unpack(KEYS, 1, 7)
local id, old, per_proxy, phone, reason, seen_version, candidates = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local now = now_ms()
local current = redis.call('HGET', SESSION, 'proxy') or 'unknown'
if current ~= old then return { 'changed', current } end -- guard: failover_seen
if seen_version ~= '' and seen_version ~= redis.call('HGET', SESSION, 'version') then return { 'changed', current } end -- guard: move_version
local proxy, slots = pick_slot(8, 8, candidates, per_proxy)
-- The worker that runs may still be on a proxy that the session left before: then it is that slot which is kept, and not this one.
local leaving = redis.call('HGET', SESSION, 'leaving') or ''
if leaving == '' and old ~= '' then redis.call('HSET', SESSION, 'leaving', old) end -- guard: keep_old_slot
if leaving ~= '' and leaving ~= old then redis.call('SREM', OF_OLD_PROXY, id) end -- guard: free_unused_slot
redis.call('HINCRBY', SESSION, 'version', 1)
if redis.call('HGET', SESSION, 'proxy_given') == 'given' then redis.call('HSET', SESSION, 'proxy_given', '') end -- guard: move_not_given
if not proxy then
  redis.call('HSET', SESSION, 'proxy', '')
  if old ~= '' then emit_and_keep(HISTORY, EVENTS, 'session.slot_lost', now, 'session', id, 'reason', reason, 'from', old, 'phone', phone) end
  return { 'no_room' }
end
redis.call('SADD', slots, id)
-- Its worker still uses the old proxy: that it must be replaced is written in the same step, so no crash can lose it.
redis.call('HSET', SESSION, 'proxy', proxy, 'restart_epoch', redis.call('HGET', SESSION, 'epoch') or '0')
if phone == '' then
  redis.call('SET', TEMPORARY, proxy)
else
  local bound = redis.call('GET', STICKY) or ''
  if bound ~= proxy then
    redis.call('SET', STICKY, proxy)
    redis.call('XADD', STICKY_HISTORY, 'MAXLEN', '~', 100, '*', 'from', bound, 'to', proxy, 'reason', reason, 'session', id, 'at', now)
  end
end
emit_and_keep(HISTORY, EVENTS, 'session.moved', now, 'session', id, 'reason', reason, 'from', old, 'to', proxy, 'phone', phone)
return { 'moved', proxy }
