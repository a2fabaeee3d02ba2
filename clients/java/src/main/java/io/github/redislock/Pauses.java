package io.github.redislock;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** The times between tries: none at first, then from 50 ms growing to 1 s, with jitter. */
final class Pauses {
    private static final long FIRST = TimeUnit.MILLISECONDS.toNanos(50);
    private int tries;

    long next() {
        if (++tries == 1) {
            return 0;
        }
        long longest = Math.min(FIRST << Math.min(tries - 2, 10), TimeUnit.SECONDS.toNanos(1));
        return longest / 2 + ThreadLocalRandom.current().nextLong(longest / 2);
    }

    void reset() {
        tries = 0;
    }
}
