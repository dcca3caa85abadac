-- uses: _session
-- move_session: a session leaves its proxy and takes a slot on another; its phone's binding goes with it.
-- Atomic because at no instant may a session hold two slots, or a proxy more than its slots.
-- KEYS[1] session hash  KEYS[2] sessions of the old proxy  KEYS[3] sticky  KEYS[4] sticky's history  KEYS[5] session's events  KEYS[6] events
-- KEYS[7] temporary binding  KEYS[8…] candidates: proxy hash, sessions of that proxy, …
-- ARGV[1] session id  ARGV[2] old proxy ('' = it waits without one)  ARGV[3] most per proxy  ARGV[4] phone ('' = unknown)  ARGV[5] reason
-- ARGV[6] number of candidates n  ARGV[7…] their ids
-- returns {'moved', proxy} | {'no_room'} | {'changed', proxy}
local id, old, phone = ARGV[1], ARGV[2], ARGV[4]
local now = now_ms()
local current = redis.call('HGET', KEYS[1], 'proxy') or 'unknown'
if current ~= old then return { 'changed', current } end -- guard: failover_seen
local proxy, slots = pick_slot(8, 7, tonumber(ARGV[6]), tonumber(ARGV[3]))
redis.call('SREM', KEYS[2], id)
redis.call('HINCRBY', KEYS[1], 'version', 1)
if not proxy then
  redis.call('HSET', KEYS[1], 'proxy', '')
  if old ~= '' then emit_and_keep(KEYS[5], KEYS[6], 'session.seatless', now, 'session', id, 'reason', ARGV[5], 'from', old, 'phone', phone) end
  return { 'no_room' }
end
redis.call('SADD', slots, id)
-- Its worker still speaks through the old proxy: that it must be replaced is written in the same step, so no crash can lose it.
redis.call('HSET', KEYS[1], 'proxy', proxy, 'restart_epoch', redis.call('HGET', KEYS[1], 'epoch') or '0')
if phone == '' then
  redis.call('SET', KEYS[7], proxy)
else
  local bound = redis.call('GET', KEYS[3]) or ''
  if bound ~= proxy then
    redis.call('SET', KEYS[3], proxy)
    redis.call('XADD', KEYS[4], 'MAXLEN', '~', 100, '*', 'from', bound, 'to', proxy, 'reason', ARGV[5], 'session', id, 'at', now)
  end
end
emit_and_keep(KEYS[5], KEYS[6], 'session.moved', now, 'session', id, 'reason', ARGV[5], 'from', old, 'to', proxy, 'phone', phone)
return { 'moved', proxy }
