-- add_credentials_change: append a worker's change set to the copy that it follows.
-- Atomic because a worker that was replaced must not write, and a change counts only after the one before it.
-- KEYS[1] session hash  KEYS[2] credentials list: `<epoch> <number of the copy>`, the copy, the changes after it
-- ARGV[1] epoch  ARGV[2] number  ARGV[3] sealed change set  ARGV[4] most changes after a copy  ARGV[5] their most bytes
-- returns {'stored'} | {'known'} | {'gap'} | {'fenced', current epoch}
local SESSION, CREDENTIALS = unpack(KEYS)
local seen_epoch, number, change, most, most_bytes = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: change_epoch
local owner, first = string.match(redis.call('LINDEX', CREDENTIALS, 0) or '', '^(%d+) (%d+)$')
if owner ~= epoch then return { 'gap' } end -- guard: change_owner
local newest = tonumber(first) + redis.call('LLEN', CREDENTIALS) - 2
if number <= newest then return { 'known' } end -- guard: change_repeated
if number > newest + 1 then return { 'gap' } end -- guard: change_next
if number - tonumber(first) > most then return { 'gap' } end -- guard: change_most
local bytes = tonumber(redis.call('HGET', SESSION, 'credentials_change_bytes') or 0) + #change
if bytes > most_bytes then return { 'gap' } end -- guard: change_bytes
redis.call('HSET', SESSION, 'credentials_change_bytes', bytes)
redis.call('RPUSH', CREDENTIALS, change)
return { 'stored' }
