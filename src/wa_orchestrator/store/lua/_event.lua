-- Shared by all scripts that emit events; domain/stream_events.py lists the types and the fields of each.

-- emit: append an event to the stream of all events.
local function emit(events, kind, now, ...)
  redis.call('XADD', events, 'MAXLEN', '~', 100000, '*', 'type', kind, 'at', now, ...)
end

-- emit_and_keep: append an event of a session to the session's own history too.
local function emit_and_keep(history, events, kind, now, ...)
  redis.call('XADD', history, 'MAXLEN', '~', 500, '*', 'type', kind, 'at', now, ...)
  emit(events, kind, now, ...)
end
