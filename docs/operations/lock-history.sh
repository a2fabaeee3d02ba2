#!/bin/sh
# Records who holds which lock of a server: one stream for each lock, history:{name of the lock}, with an entry for each
# change of the holder, for a week. It runs until the server closes a connection; then start it again.
#
# usage: lock-history.sh [options of redis-cli: -p 6380 --user recorder ...]
set -eu

# KEYS: the stream. ARGV: the event, the lock, which is only read: as a key it would need the right to write. The history of
# a key that never was a lock is not begun.
script="
local gone = { del = true, expired = true, evicted = true }
if gone[ARGV[1]] and redis.call('EXISTS', KEYS[1]) == 0 then return end
local owners, tokens = {}, {}
if redis.call('TYPE', ARGV[2]).ok == 'RedisLock' then
    for _, holder in ipairs(redis.call('LOCK.HOLDERS', ARGV[2])) do
        for i = 1, #holder, 2 do
            if holder[i] == 'owner' then owners[#owners + 1] = holder[i + 1] end
            if holder[i] == 'token' then tokens[#tokens + 1] = string.format('%.0f', holder[i + 1]) end
        end
    end
end
local owner, token = table.concat(owners, ' '), table.concat(tokens, ' ')
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if token == (last and last[2][6] or '') then return end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '*', 'event', ARGV[1], 'owner', owner, 'token', token)
redis.call('EXPIRE', KEYS[1], 604800)
"
sha=$(redis-cli "$@" SCRIPT LOAD "$script")

# In CSV a key is quoted as redis-cli reads it. The braces keep both keys in one slot of a cluster; a name that has braces
# of its own needs no others.
redis-cli "$@" --csv PSUBSCRIBE '__keyevent@0__:lock.*' '__keyevent@0__:del' '__keyevent@0__:expired' \
    '__keyevent@0__:evicted' |
    sed -u -n \
        -e '/:lock[.]renew",/d' \
        -e '/,"history:/d' \
        -e "s/^\"pmessage\",\"[^\"]*\",\"__keyevent@0__:\([a-z.]*\)\",\"\(.*\)\"\$/EVALSHA $sha 1 \"history:{\2}\" \1 \"\2\"/" \
        -e 's/"history:{\([^"]*{.*}[^"]*\)}"/"history:\1"/' \
        -e '/^EVALSHA/p' |
    redis-cli "$@" >/dev/null
