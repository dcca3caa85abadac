-- uses: _message
-- uses: _answer
-- uses: _hold
-- uses: _new_contacts
-- confirm_write: extend the lease of a holder that is about to write to WhatsApp, unless the message must not leave any more:
-- then it ends, as unknown if it may have arrived, or returns to the front. Neither the limits nor its attempts count it, unless the
-- holder was allowed to write before.
-- Atomic because whatever was answered before this step (a hold, an opt-out) must be seen by it, and the holder may lose its lease meanwhile.
-- KEYS: the message layout, then KEYS[17] holds hash  KEYS[18] contacts set  KEYS[19] opt-outs hash
-- KEYS[20] hash of the conversation, if there is one  KEYS[21] index of conversations  KEYS[22] unconfirmed zset
-- ARGV[4] epoch  ARGV[5] lease ms  ARGV[6] the recipient's other name, the same for none
-- ARGV[7] open from ms  ARGV[8] open until ms  ARGV[9…] fields of holds that concern it
-- returns {'renewed', until ms} | {'fenced', current epoch} | {'not_holder', status} | {'stranger'} | {'refused', status, reason}
local HOLDS, CONTACTS, OPT_OUTS, CONVERSATION, CONVERSATIONS, UNCONFIRMED = unpack(KEYS, 17, 22)
local seen_epoch, lease_ms, other_name, open_from, open_until = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local FIRST_HOLD = 9
local now = now_ms()
local epoch = redis.call('HGET', SESSION, 'epoch') or '0'
if epoch ~= seen_epoch then return { 'fenced', epoch } end -- guard: write_epoch
local status, claim_epoch, session, expires_at, to = unpack(redis.call('HMGET', MESSAGE, 'status', 'claim_epoch', 'session', 'expires_at', 'to'))
if status and is_stranger(SESSION, SESSION_ID) then return { 'stranger' } end -- guard: write_owner
local is_holder = status == 'sending' and session == SESSION_ID and claim_epoch == epoch
if not is_holder then return { 'not_holder', status or 'unknown' } end -- guard: write_holder

local function refuse(final, reason)
  if redis.call('HEXISTS', MESSAGE, 'claimed_by') == 0 then -- guard: write_again
    end_flight(now, tonumber(redis.call('HGET', MESSAGE, 'pause_ms') or 0))
    redis.call('HSET', MESSAGE, 'in_doubt', '1')
  else
    undo_release()
  end
  redis.call('HINCRBY', MESSAGE, 'uncounted', 1)
  if final == 'queued' then
    redis.call('ZADD', QUEUE, FRONT, ID)
    set_status(final, now, reason)
  else
    final = end_unsent(UNCONFIRMED, now, final, reason)
    if final ~= 'unknown' then wait_again(CONVERSATIONS, CONVERSATION, ID) end -- guard: late_answer
  end
  wake_phone(now)
  return { 'refused', final, reason }
end
if has_opted_out_by(OPT_OUTS, other_name, to) then return refuse('cancelled', 'OPTED_OUT') end -- guard: write_opt_out
expires_at = tonumber(expires_at or 0)
if expires_at > 0 and expires_at <= now then return refuse('expired', 'EXPIRED') end -- guard: write_expired
for index = FIRST_HOLD, #ARGV do
  if is_held(HOLDS, ARGV[index], now) then return refuse('queued', 'HELD') end -- guard: write_hold
end
if now < open_from or now >= open_until then return refuse('queued', 'OUTSIDE_HOURS') end -- guard: write_hours
local lock_until, cap_until = unpack(redis.call('HMGET', PACE, 'lock_until', 'cap_until'))
local limit = new_contact_limit(lock_until, cap_until, now)
-- What release_message lets go and this refuses would go round for as long as the limit lasts.
if limit and is_new_contact(CONTACTS, other_name, to) then return refuse('queued', limit) end -- guard: write_reachout
redis.call('ZADD', LEASES, now + lease_ms, ID)
redis.call('HDEL', MESSAGE, 'claimed_by') -- guard: claim_written
return { 'renewed', now + lease_ms }
