-- The fields of INFO lock as names and numbers in turn. prometheus-redis-exporter runs it (-script), and makes
-- redis_script_values{key="..."} of each. Counters end with _total, times are in seconds.
local gauges = {}
for name in ('held holders waiting queued max_waiting longest_queue sessions sessions_detached session_grants last_token'):gmatch('%S+') do
    gauges[name] = true
end
local metrics = {}
for name, value in redis.call('INFO', 'lock'):gmatch('lock_([%w_]+):(%-?%d+)') do
    local kind, which = name:match('^(%a+)_ms_(%w+)$')
    if kind then
        name, value = kind .. '_' .. which .. '_seconds', tostring(value / 1000)
    elseif not gauges[name] then
        name = name .. '_total'
    end
    metrics[#metrics + 1] = name
    metrics[#metrics + 1] = value
end
return metrics
