-- uses: _message
-- amend_message: note that a message which was sent has another text now, or was deleted for everyone.
-- Atomic because it may move to another session or to the archive meanwhile.
-- KEYS: the message layout
-- ARGV[4] EDITED | DELETED  ARGV[5] its new content, '' = as it was
-- returns {'amended'} | {'unknown'}
local how, body = ARGV[4], ARGV[5]
local status = redis.call('HGET', MESSAGE, 'status')
if not status then return { 'unknown' } end -- guard: amend_known
local now = now_ms()
redis.call('HSET', MESSAGE, how == 'EDITED' and 'edited_at' or 'deleted_at', now)
if body ~= '' then redis.call('HSET', MESSAGE, 'body', body) end
add_to_timeline(now, status, how)
return { 'amended' }
