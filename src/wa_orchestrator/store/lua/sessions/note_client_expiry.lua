-- uses: _event
-- note_client_expiry: WhatsApp announced when it will refuse a client version, or withdrew that. Only a sooner time is news.
-- Atomic because all sessions report it at the same time, and there is one event.
-- KEYS[1] client version hash  KEYS[2] event stream
-- ARGV[1] instant of the refusal ('' = withdrawn)  ARGV[2] JSON of what people are told
-- returns {'noted'} | {'withdrawn'} | {'known'}
local VERSION, EVENTS = KEYS[1], KEYS[2]
local expires_at, details = ARGV[1], ARGV[2]
local known = redis.call('HGET', VERSION, 'expires_at') or ''
if expires_at == '' then
  if known == '' then return { 'known' } end -- guard: expiry_unknown
  redis.call('HDEL', VERSION, 'expires_at')
  emit(EVENTS, 'client.expiry_withdrawn', now_ms(), 'details', details)
  return { 'withdrawn' }
end
if known ~= '' and tonumber(known) <= tonumber(expires_at) then return { 'known' } end -- guard: expiry_sooner
redis.call('HSET', VERSION, 'expires_at', expires_at)
emit(EVENTS, 'client.expires', now_ms(), 'details', details)
return { 'noted' }
