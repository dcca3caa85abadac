-- put_credentials_copy: replace the stored credentials by a worker's whole copy.
-- Atomic because a worker that was replaced must not write, and a copy that was under way for long must not replace a later state.
-- KEYS[1] session hash  KEYS[2] credentials list: `<epoch> <number of the copy>`, the copy, the changes after it
-- ARGV[1] epoch  ARGV[2] number  ARGV[3] sealed copy
-- returns {'stored'} | {'known'} | {'fenced', current epoch}
local SESSION, CREDENTIALS = unpack(KEYS)
local seen_epoch, number, copy = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: copy_epoch
local owner, first = string.match(redis.call('LINDEX', CREDENTIALS, 0) or '', '^(%d+) (%d+)$')
local newest = owner == epoch and tonumber(first) + redis.call('LLEN', CREDENTIALS) - 2 or 0
if number <= newest then return { 'known' } end -- guard: copy_newer
redis.call('DEL', CREDENTIALS)
redis.call('RPUSH', CREDENTIALS, epoch .. ' ' .. number, copy)
redis.call('HSET', SESSION, 'credentials_change_bytes', 0)
return { 'stored' }
