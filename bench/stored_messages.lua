-- store: write ended messages as the scripts of src/wa_orchestrator/store/lua leave them.
-- ARGV[1] the first number  ARGV[2] how many  ARGV[3] how many in all, spread over ninety days  ARGV[4] now ms
local first, count, total, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local NINETY_DAYS, TWO_DAYS = 90 * 86400000, 172800000
local body = cjson.encode({ kind = 'text', text = string.rep('Your order is ready. ', 5) })
-- Of twenty messages two fail, one is cancelled, one expires; three are sent, six delivered, seven read.
local STATUSES_OF = { 'failed', 'failed', 'cancelled', 'expired', 'sent', 'sent', 'sent' }
for n = first, first + count - 1 do
  local id, session = string.format('m_%018x', n), 'w' .. n % 40
  local phone, to = string.format('97250%07d', n % 40), string.format('97252%07d', n % 20000)
  local reference, batch = 'order-' .. math.floor(n / 10), string.format('b_%018x', math.floor(n / 100))
  local at = math.floor(now - NINETY_DAYS + n * (NINETY_DAYS / total))
  local status = STATUSES_OF[n % 20 + 1] or (n % 20 < 13 and 'delivered' or 'read')
  local was_tried = status ~= 'cancelled' and status ~= 'expired'
  local message, story = 'message:' .. id, 'message:story:' .. id
  redis.call('HSET', message, 'id', id, 'phone', phone, 'to', to, 'session', session, 'status', status, 'accepted_at', at,
    'sequence', n, 'priority', 2, 'whatsapp_id', string.format('3EB0%018X', n), 'kind', 'text', 'body', body,
    'api_key', 'k_bench', 'why', 'MOST_ROOM', 'reference', reference, 'batch', batch, 'reason', '')
  local steps = { status }
  if was_tried then
    steps = { 'scheduled', 'sending', status }
    redis.call('HSET', message, 'session', session, 'releases', 1, 'pause_ms', 3000, 'released_at', at, 'attempts', 1,
      'claim_epoch', 1, 'claimed_at', at)
    redis.call('ZREMRANGEBYSCORE', 'phone:sent:' .. phone, '-inf', now - TWO_DAYS)
    if at > now - TWO_DAYS then redis.call('ZADD', 'phone:sent:' .. phone, at, id .. '#1') end
    if status == 'failed' then redis.call('ZADD', 'messages:dead', at, id) else redis.call('HSET', message, 'sent_at', at) end
    if status == 'delivered' or status == 'read' then
      steps = { 'scheduled', 'sending', 'sent', status }
      redis.call('HSET', message, status .. '_at', at)
      redis.call('SADD', 'phone:contacts:' .. phone, to)
    end
  end
  for _, step in ipairs(steps) do redis.call('RPUSH', story, string.format('%.0f', at) .. ' ' .. step .. ' ') end
  redis.call('ZADD', 'messages:ended', at, id)
  for _, index in ipairs({ 'messages:index', 'messages:session:' .. session, 'messages:to:' .. to, 'messages:reference:' .. reference,
    'messages:batch:' .. batch }) do redis.call('ZADD', index, at, id) end
  add_status('messages:statuses', session, status, at, id)
  redis.call('HINCRBY', 'messages:counts', status, 1)
  redis.call('HINCRBY', 'messages:counts', 'accepted', 1)
  redis.call('SET', 'messages:sequence', n)
  redis.call('XADD', 'events', 'MAXLEN', '~', 100000, '*', 'type', 'message.' .. status, 'at', at, 'session', session, 'message', id,
    'phone', phone, 'note', '')
end
return { 'stored' }
