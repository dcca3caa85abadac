-- uses: _conversation_index
-- uses: _event
-- change_conversation: mark a conversation as read, or change its state, assignee, tags or notes. One event if anything changed.
-- Atomic because a message may come in at the same moment: what nobody has seen must stay unread, and the index must follow.
-- KEYS[1] conversation hash  KEYS[2] index zset  KEYS[3] events stream  KEYS[4] thread zset
-- ARGV[1] conversation id  ARGV[2] our phone  ARGV[3] who changes it  ARGV[4] what changes, for the event
-- ARGV[5] read up to this instant ms; '' = what is unread stays; 'unread' = it waits again
-- ARGV[6…] fields and values
-- returns {'changed'} | {'same'} | {'unknown'}
local CONVERSATION, INDEX, EVENTS, THREAD = unpack(KEYS)
local id, phone, by, change, read_until = unpack(ARGV, 1, 5)
if redis.call('EXISTS', CONVERSATION) == 0 then return { 'unknown' } end -- guard: conversation_known
local now = now_ms()
local fields = { unpack(ARGV, 6) }
local function set(name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = tostring(value)
end
local unread, last_in_at, session_id, contact_phone, contact_lid = unpack(redis.call('HMGET', CONVERSATION, 'unread', 'last_in_at', 'session', 'phone', 'lid'))
if read_until == 'unread' then
  if tonumber(unread or 0) == 0 and tonumber(last_in_at or 0) > 0 then
    set('unread', 1)
    set('waiting_since', last_in_at)
  end
elseif read_until ~= '' then
  -- What came after the last message that was seen is still unread.
  local later = redis.call('ZRANGEBYSCORE', THREAD, '(' .. read_until, '+inf', 'WITHSCORES')
  local left = 0
  if #later > 0 then left = math.min(#later / 2, tonumber(unread or 0)) end -- guard: unseen_stays
  set('unread', left)
  set('waiting_since', left > 0 and later[2] or 0)
  -- The time of reading changes with every view; alone it does not count as a change.
  if left ~= tonumber(unread or 0) then set('read_at', string.format('%.0f', now)) end
end
-- keep_notes: what the notes said before is kept, with when and by whom it was written.
local MOST_NOTES = 20
local function keep_notes()
  local notes, at, who, earlier = unpack(redis.call('HMGET', CONVERSATION, 'notes', 'noted_at', 'noted_by', 'earlier_notes'))
  if (notes or '') == '' then return end
  local kept = cjson.decode(earlier and earlier ~= '' and earlier or '[]')
  table.insert(kept, 1, cjson.encode({ text = notes, at = tonumber(at or 0), by = who or '' }))
  while #kept > MOST_NOTES do table.remove(kept) end -- guard: most_notes
  set('earlier_notes', cjson.encode(kept))
end
local before_notes = redis.call('HGET', CONVERSATION, 'notes') or ''
for at = 1, #fields, 2 do
  if fields[at] == 'notes' and fields[at + 1] ~= before_notes then keep_notes() break end -- guard: notes_kept
end
local is_same = true
for at = 1, #fields, 2 do
  local before, after = redis.call('HGET', CONVERSATION, fields[at]) or '', fields[at + 1]
  if before ~= after and not (before == '' and after == '0') then is_same = false end
end
if is_same then return { 'same' } end -- guard: conversation_same
leave_index(INDEX, CONVERSATION)
redis.call('HSET', CONVERSATION, unpack(fields))
enter_index(INDEX, CONVERSATION)
emit(EVENTS, 'conversation.changed', now, 'session', session_id, 'phone', phone, 'conversation', id, 'change', change, 'by', by,
  'contact_phone', contact_phone or '', 'contact_lid', contact_lid or '')
return { 'changed' }
