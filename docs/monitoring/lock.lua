-- The fields of INFO lock as names and numbers in turn, without the prefix: what
-- prometheus-redis-exporter runs (-script) and turns into redis_script_values{key="..."}.
local fields = {}
for name, value in redis.call('INFO', 'lock'):gmatch('lock_([%w_]+):(%-?%d+)') do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
end
return fields
