-- uses: _event
-- Shared by scripts about one session.

-- pick_slot: the least loaded healthy proxy with a free slot, as its id and the key of its sessions, or nil.
-- Candidates are pairs of hash and set from KEYS[first], their ids from ARGV[first_id]; between equals the order decides.
local function pick_slot(first, first_id, count, most)
  local best, best_load
  for n = 0, count - 1 do
    local status = redis.call('HGET', KEYS[first + 2 * n], 'status')
    local load = redis.call('SCARD', KEYS[first + 2 * n + 1])
    if status == 'OK' and load < most and (not best or load < best_load) then -- guard: slot
      best, best_load = n, load
    end
  end
  if best then return ARGV[first_id + best], KEYS[first + 2 * best + 1] end
end
