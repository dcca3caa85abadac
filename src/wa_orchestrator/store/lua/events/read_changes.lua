-- read_changes: return the sessions and phones that events after a cursor are about, for a reader with a cache.
-- A script because the names are few and the events many: only the names leave Redis. Writes nothing.
-- KEYS[1] events stream  ARGV[1] cursor  ARGV[2] how many events are read at most
-- returns {'changes', cursor, 'more' | '', JSON of sessions whose records may have changed, JSON of phones whose figures may have}
--       | {'lost'}: the stream is not the one that the cursor is from
local EVENTS, cursor, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local newest = redis.call('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)[1]

local function is_before(one, other)
  local one_ms, one_number = one:match('^(%d+)-(%d+)$')
  local other_ms, other_number = other:match('^(%d+)-(%d+)$')
  if one_ms ~= other_ms then return tonumber(one_ms) < tonumber(other_ms) end
  return tonumber(one_number) < tonumber(other_number)
end
if not newest and cursor ~= '0-0' or newest and is_before(newest[1], cursor) then return { 'lost' } end -- guard: same_stream
local found = redis.call('XRANGE', EVENTS, '(' .. cursor, '+', 'COUNT', most)
local sessions, phones = {}, {}
for _, entry in ipairs(found) do
  local fields, kind, session, phone = entry[2], '', '', ''
  for at = 1, #fields, 2 do
    if fields[at] == 'type' then kind = fields[at + 1]
    elseif fields[at] == 'session' then session = fields[at + 1]
    elseif fields[at] == 'phone' then phone = fields[at + 1] end
  end
  if kind:sub(1, 8) ~= 'message.' then sessions[session] = true end -- what happens to a message changes no session
  phones[phone] = true
end

local function names(set)
  set[''] = nil
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  return #list > 0 and cjson.encode(list) or '[]'
end
local last = found[#found]
return { 'changes', last and last[1] or cursor, #found == most and 'more' or '', names(sessions), names(phones) }
