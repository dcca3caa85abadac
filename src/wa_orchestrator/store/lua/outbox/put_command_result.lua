-- put_command_result: store a worker's result of a command for the caller that waits for it.
-- Atomic because a command has one result, and only from the session that was asked: the question ends as the answer is stored.
-- KEYS[1] the question: `<how> <session id>`, how being awaited | unheard (nobody waits for the result)  KEYS[2] result list
-- ARGV[1] session id of the worker  ARGV[2] result as JSON  ARGV[3] how long it is kept ms
-- returns {'stored'} | {'unasked'}
local QUESTION, RESULT = KEYS[1], KEYS[2]
local session_id, result, keep_ms = ARGV[1], ARGV[2], ARGV[3]
local how, asked_session = string.match(redis.call('GET', QUESTION) or '', '^(%a+) (.+)$')
if asked_session ~= session_id then return { 'unasked' } end -- guard: result_asked
redis.call('DEL', QUESTION) -- guard: result_once
if how == 'awaited' then redis.call('RPUSH', RESULT, result) end -- guard: result_awaited
redis.call('PEXPIRE', RESULT, keep_ms)
return { 'stored' }
