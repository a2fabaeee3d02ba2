package io.github.redislock;

import org.jspecify.annotations.Nullable;

/** What came of one attempt to take a lock on several servers. */
sealed interface QuorumOutcome {
    /** A majority holds it with this token, in leases that began then or later. */
    record Got(long token, long since) implements QuorumOutcome {}

    /**
     * It was not obtained.
     *
     * @param first in whose line one may wait; null where nobody was said to have the lock
     */
    record Failed(LockException error, @Nullable QuorumMember first) implements QuorumOutcome {
        /** Whether there were servers enough, but others have the lock, or it came too late. */
        boolean isBusy() {
            return error instanceof LockBusyException;
        }

        /** Whether another attempt may get it. */
        boolean mayPass() {
            return isBusy() || error instanceof LockUnavailableException;
        }
    }
}
