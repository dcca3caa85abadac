-- mark_changed: note that a session's record has changed. For changes without an event: readers with a cache read the session again.
local function mark_changed(changed, session, now)
  redis.call('ZADD', changed, now, redis.call('HGET', session, 'id') or '')
  redis.call('ZREMRANGEBYSCORE', changed, '-inf', now - 60000)
end
