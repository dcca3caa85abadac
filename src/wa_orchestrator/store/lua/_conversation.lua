-- Which session has the conversation with a recipient: fixed by the first message that is accepted for them or comes from
-- them; moved when they write to another phone of ours, and when another sender is chosen because its own is gone.

local SENDER_KEPT_S = 7776000

-- set_sender: the conversation belongs to this session from now on.
local function set_sender(affinity, session)
  redis.call('SET', affinity, session, 'EX', SENDER_KEPT_S)
end

-- keep_sender: the session exchanged a message with the recipient; it gets the conversation only if nobody has it.
local function keep_sender(affinity, session)
  if not redis.call('SET', affinity, session, 'EX', SENDER_KEPT_S, 'NX') then redis.call('EXPIRE', affinity, SENDER_KEPT_S) end
end
