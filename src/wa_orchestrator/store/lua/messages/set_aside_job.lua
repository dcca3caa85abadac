-- set_aside_job: move an entry of the gateway's jobs that is not a message to a list for inspection, which keeps the latest 1,000.
-- Atomic because two dispatchers may hold the same job: it must be in exactly one of the two lists.
-- KEYS[1] jobs list  KEYS[2] list of jobs set aside  ARGV[1] the job
-- returns {'set_aside'} | {'gone'}
local JOBS, STRANGE = KEYS[1], KEYS[2]
local job = ARGV[1]
if redis.call('LREM', JOBS, 1, job) == 0 then return { 'gone' } end -- guard: set_aside_once
redis.call('LPUSH', STRANGE, job)
redis.call('LTRIM', STRANGE, 0, 999)
return { 'set_aside' }
