-- write_tag_limits: give a session the limits that its tags have now; whether that changed it. The session has a copy, so that whoever reads a
-- session reads its limits, and no reader sees new tags with old limits.
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
