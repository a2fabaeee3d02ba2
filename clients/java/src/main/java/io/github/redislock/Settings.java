package io.github.redislock;

/** What a {@link Locks} was made with; times in nanoseconds. */
record Settings(String service, String prefix, long lease, long silence, long reply, LockObserver observer) {}
