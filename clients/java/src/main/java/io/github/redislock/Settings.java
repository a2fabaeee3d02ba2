package io.github.redislock;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;

/** What a {@link Locks} was made with; times in nanoseconds. */
record Settings(String service, Duration lease, Duration keep, long reply, long release, long close,
        ThreadFactory threads, LockObserver observer) {}
