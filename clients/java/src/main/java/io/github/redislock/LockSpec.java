package io.github.redislock;

import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What is asked for.
 *
 * @param mode the words of the mode
 * @param keepMs 0: a lease that nobody renews
 * @param atMost how long it is held at most; null: for as long as it is wanted
 * @param replicas how many have to have acknowledged it
 */
record LockSpec(String key, List<String> mode, Duration lease, long keepMs, @Nullable Duration atMost, int replicas) {
    boolean isExclusive() {
        return mode.isEmpty();
    }

    boolean isPermit() {
        return mode.contains("LIMIT");
    }

    LockSpec withLease(Duration other) {
        return new LockSpec(key, mode, other, keepMs, atMost, replicas);
    }

    /** Words that end where options may follow. */
    Words acquire(String owner, boolean kept) {
        Words words = Words.of("LOCK.ACQUIRE", key, owner).and(mode.toArray()).and("PX", lease.toMillis());
        return kept && keepMs > 0 ? words.and("KEEP", keepMs) : words;
    }
}
