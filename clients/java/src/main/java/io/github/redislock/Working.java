package io.github.redislock;

import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Work under a grant, which a loss interrupts. */
final class Working {
    private final Grant grant;
    private final Thread thread = Thread.currentThread();
    private boolean isWorking = true;
    private boolean hasInterrupted;

    Working(Grant grant) {
        this.grant = grant;
    }

    private synchronized void interrupt() {
        if (isWorking) {
            hasInterrupted = true;
            thread.interrupt();
        }
    }

    /** Ends the interruption; one that the work has not noticed is taken back. */
    private synchronized void end() {
        isWorking = false;
        if (hasInterrupted) {
            Thread.interrupted();
        }
    }

    <T extends @Nullable Object, X extends Exception> T call(Work<T, X> work) throws X, InterruptedException {
        grant.onLost(why -> interrupt());
        Throwable thrown = null;
        try {
            return work.run(grant);
        } catch (Throwable e) {
            thrown = e;
            throw e;
        } finally {
            end();
            release(thrown);
        }
    }

    private void release(@Nullable Throwable thrown) {
        try {
            grant.close();
        } catch (LockException e) {
            boolean isOfLoss = thrown == null || thrown instanceof InterruptedException && hasInterrupted;
            if (isOfLoss) {
                if (thrown != null) {
                    e.addSuppressed(thrown);
                }
                throw e;
            }
            if (thrown != e) {
                thrown.addSuppressed(e);
            }
        }
    }

    static <X extends Exception> void lead(RedisLock lock, Work<? extends @Nullable Object, X> work)
            throws X, InterruptedException {
        Pauses pauses = new Pauses();
        for (;;) {
            Throwable[] own = new Throwable[1]; // of the work, not of the loss of its lock
            try {
                lock.call(grant -> {
                    pauses.reset();
                    try {
                        return work.run(grant);
                    } catch (Throwable e) {
                        own[0] = e;
                        throw e;
                    }
                });
            } catch (LockLostException | LockUnavailableException e) {
                if (own[0] == e) {
                    throw e;
                }
            }
            TimeUnit.NANOSECONDS.sleep(pauses.next());
        }
    }
}
