-- uses: _conversation_index
-- import_conversation: a chat that the phone already had when its device was linked becomes a conversation, with its last texts if
-- those are wanted. Nobody waits in it, no event is emitted, and nobody becomes a known contact: it is what was, and only the
-- worker's word. A conversation that is known keeps everything; it gets a name if it has none.
-- Atomic because a message of the chat may come in at the same moment, and the index must follow.
-- KEYS[1] conversation hash  KEYS[2] thread zset  KEYS[3] index of conversations  KEYS[4] activity zset  KEYS[5] names zset
-- KEYS[6] opt-outs hash  KEYS[7] zset of incoming messages  KEYS[8…] incoming hash of each text
-- ARGV[1] session id  ARGV[2] our phone  ARGV[3] contact or group  ARGV[4] contact's phone ('' = unknown)  ARGV[5] LID ('' = unknown)
-- ARGV[6] '1' for a group, '' otherwise  ARGV[7] name ('' = unknown)  ARGV[8] the same as it is searched  ARGV[9] when it was last used ms
-- ARGV[10] ms to keep texts  ARGV[11] session under which the account keeps the conversation  ARGV[12…] of each text, newest first: our id, WhatsApp's id, when ms, in | out, the text
-- returns {'imported'} | {'known'}
local CONVERSATION, THREAD, INDEX, ACTIVITY, NAMES, OPT_OUTS, RECENT = unpack(KEYS, 1, 7)
local session_id, phone, contact, contact_phone, contact_lid, group, name, folded, last_at, keep_ms, home = unpack(ARGV, 1, 11)
local FIRST_TEXT, FIELDS = 12, 5
local is_known = redis.call('EXISTS', CONVERSATION) == 1

local function opted_out()
  local by_lid = 'lid:' .. contact_lid
  local listed = redis.call('HMGET', OPT_OUTS, contact_phone, phone .. ' ' .. contact_phone, by_lid, phone .. ' ' .. by_lid)
  return listed[1] or listed[2] or listed[3] or listed[4]
end

local function put_text(key, at)
  local id, whatsapp_id, sent_at, direction, text = unpack(ARGV, at, at + FIELDS - 1)
  if redis.call('EXISTS', key) == 1 then return end -- guard: imported_text_once
  redis.call('HSET', key, 'whatsapp_id', whatsapp_id, 'kind', 'text', 'contact_phone', contact_phone, 'contact_lid', contact_lid,
    'received_at', sent_at, 'group', group == '1' and contact or '', 'direction', direction, 'at', sent_at, 'text', text)
  redis.call('PEXPIRE', key, keep_ms)
  redis.call('ZADD', RECENT, sent_at, session_id .. ' ' .. whatsapp_id)
  redis.call('ZADD', THREAD, sent_at, id)
end

for number = 8, #KEYS do
  put_text(KEYS[number], FIRST_TEXT + (number - 8) * FIELDS)
end
if #KEYS > 7 then redis.call('PEXPIRE', THREAD, keep_ms) end
if is_known then -- guard: imported_keeps_known
  if (redis.call('HGET', CONVERSATION, 'name') or '') == '' then set_name(NAMES, CONVERSATION, name, folded) end -- guard: imported_name
  return { 'known' }
end
redis.call('HSET', CONVERSATION, 'session', home, 'our_phone', phone, 'contact', contact, 'created_at', last_at, 'last_at', last_at,
  'last_message', ARGV[FIRST_TEXT] or '', 'unread', 0, 'waiting_since', 0)
if group == '1' then
  redis.call('HSET', CONVERSATION, 'group', 1)
else
  redis.call('HSET', CONVERSATION, 'phone', contact_phone, 'lid', contact_lid, 'opted_out', opted_out() and '1' or '')
end
set_name(NAMES, CONVERSATION, name, folded)
enter_index(INDEX, CONVERSATION)
redis.call('ZADD', ACTIVITY, last_at, home .. ' ' .. contact)
return { 'imported' }
