-- write_tag_limits: copy the limits of a session's tags into its record; returns whether that changed it. A copy, so that reading a session
-- reads its limits, and no reader sees new tags with old limits.
local function write_tag_limits(session, limits)
  local tags, before = unpack(redis.call('HMGET', session, 'tags', 'tag_limits'))
  local found = {}
  for _, tag in ipairs(cjson.decode(tags and tags ~= '' and tags or '[]')) do
    local limit = redis.call('HGET', limits, tag)
    if limit then found[#found + 1] = limit end
  end
  local after = #found > 0 and '[' .. table.concat(found, ',') .. ']' or ''
  if after == (before or '') then return false end
  if after == '' then redis.call('HDEL', session, 'tag_limits') else redis.call('HSET', session, 'tag_limits', after) end
  return true
end
