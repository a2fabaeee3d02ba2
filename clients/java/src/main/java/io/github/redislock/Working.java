package io.github.redislock;

import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Work under a grant, which a loss interrupts. */
final class Working {
    private final Grant grant;
    private final Thread thread = Thread.currentThread();
    private boolean isWorking = true;
    private boolean hasInterrupted;
    private @Nullable Throwable thrown; // by the work

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
        try {
            return work.run(grant);
        } catch (Throwable e) {
            thrown = e;
            throw e;
        } finally {
            end();
            release();
        }
    }

    private void release() {
        try {
            grant.close();
        } catch (LockException e) {
            if (thrown == null || thrown instanceof InterruptedException && hasInterrupted) {
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
            Working working = null;
            try {
                working = new Working(lock.lockInterruptibly());
                pauses.reset();
                working.call(work);
            } catch (LockLostException | LockUnavailableException e) {
                if (working != null && working.thrown == e) {
                    throw e; // of the work itself
                }
            }
            TimeUnit.NANOSECONDS.sleep(pauses.next());
        }
    }
}
