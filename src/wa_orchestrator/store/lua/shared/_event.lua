-- Shared by all scripts that emit events; domain/stream_events.py lists the types and the fields of each.

-- The archiver trims earlier, what it has stored; this limit keeps Redis from growing while no leader runs.
local MAX_EVENTS, MAX_SESSION_EVENTS = 1000000, 500

-- emit: append an event to the stream of all events.
local function emit(events, kind, now, ...)
  redis.call('XADD', events, 'MAXLEN', '~', MAX_EVENTS, '*', 'type', kind, 'at', now, ...)
end

-- emit_untrimmed, trim_events: the same in two steps, for a script that emits many events.
local function emit_untrimmed(events, kind, now, ...)
  redis.call('XADD', events, '*', 'type', kind, 'at', now, ...)
end

local function trim_events(events)
  redis.call('XTRIM', events, 'MAXLEN', '~', MAX_EVENTS)
end

-- emit_and_keep: append an event of a session to the session's own history too.
local function emit_and_keep(history, events, kind, now, ...)
  redis.call('XADD', history, 'MAXLEN', '~', MAX_SESSION_EVENTS, '*', 'type', kind, 'at', now, ...)
  emit(events, kind, now, ...)
end
