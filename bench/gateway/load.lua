-- The load of the benchmark: one message each, spread over SESSIONS sessions and many recipients.
local sessions, count = tonumber(os.getenv('SESSIONS')), 0
local named = os.getenv('NAMED') == '1'
local headers = { ['Content-Type'] = 'application/json', ['X-API-Key'] = os.getenv('API_KEY') }

request = function()
  count = count + 1
  local to = string.format('97251%07d', (count * 7919) % 10000000)
  local sender = named and string.format(',"sessionId":"worker_%d"', count % sessions + 1) or ''
  local body = string.format('{"to":"%s","message":"Your order %d is ready. Thank you for waiting."%s}', to, count, sender)
  return wrk.format('POST', '/api/v1/send', headers, body)
end

done = function(summary, latency)
  local lost = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('RESULT {"requests":%d,"microseconds":%d,"refused":%d,"lost":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration, summary.errors.status, lost, latency:percentile(50), latency:percentile(99)))
end
