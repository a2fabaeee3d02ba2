#!/bin/sh
# Several processes run, and one leads. When it is stopped, another one does at once; when it dies, a lease later.
REDIS_URL=${REDIS_URL:-redis://127.0.0.1}

# The command is ended when the lock is lost, because somebody else leads then.
exec redis-lock -u "$REDIS_URL" -w forever -l 3s lock:leader -- \
    sh -c 'echo "leading, with token $LOCK_TOKEN"; exec sleep infinity'
