-- Shared by scripts that carry out a worker's event in the same step that notes it as received: a crash cannot come between, and
-- both are one write. store/events/worker_events.py passes the arguments.

-- refused_event: why an event must not be carried out, as a reply; nil if it may be.
local function refused_event(session, heard, epoch)
  local current = redis.call('HGET', session, 'epoch')
  if epoch ~= current then return { 'fenced', current or 0 } end -- guard: event_epoch
  local before = redis.call('GET', heard)
  if before == 'working' then return { 'in_progress' } end -- guard: event_in_progress
  if before then return { 'repeated' } end -- guard: event_once
end

-- note_event: the event is done; its repetitions are refused.
local function note_event(heard, digest, keep_ms)
  redis.call('SET', heard, digest, 'PX', keep_ms)
end

-- begin_event: reserve an event that has further steps; the caller notes it when they are done. Until then, for a limited time, repetitions wait.
local function begin_event(heard)
  redis.call('SET', heard, 'working', 'PX', 30000)
end
