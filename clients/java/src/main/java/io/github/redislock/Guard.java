package io.github.redislock;

import java.util.concurrent.Callable;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Work that the loss of its lock interrupts. */
final class Guard implements Consumer<LockLostException> {
    private final Thread worker = Thread.currentThread();
    private boolean isOver;
    private boolean hasInterrupted;

    private Guard() {}

    @Override
    public synchronized void accept(LockLostException loss) {
        if (!isOver) {
            hasInterrupted = true;
            worker.interrupt();
        }
    }

    /** Whether it has interrupted the work. That interrupt ends here. */
    private synchronized boolean end() {
        isOver = true;
        return hasInterrupted && (Thread.interrupted() || true);
    }

    static <T extends @Nullable Object, X extends Exception> T call(Grant grant, Work<T, X> work) throws X {
        return call(grant::onLost, grant::close, () -> work.run(grant));
    }

    static <T extends @Nullable Object, X extends Exception> T call(Grants grants, SeveralLocks.Work<T, X> work) throws X {
        return call(grants::onLost, grants::close, () -> work.run(grants));
    }

    @SuppressWarnings("unchecked") // what is thrown is X, or unchecked
    private static <T extends @Nullable Object, X extends Exception> T call(Consumer<Guard> onLost, Runnable release,
            Callable<T> work) throws X {
        Guard guard = new Guard();
        onLost.accept(guard);
        T value = null;
        Throwable thrown = null;
        try {
            value = work.call();
        } catch (Throwable e) {
            thrown = e;
        }
        boolean isInterruptOurs = guard.end();
        LockException fault = null;
        try {
            release.run();
        } catch (LockException e) {
            fault = e;
        }
        if (thrown == null) {
            if (fault != null) {
                throw fault;
            }
            return value;
        }
        if (fault != null) {
            if (isInterruptOurs && thrown instanceof InterruptedException) {
                fault.addSuppressed(thrown);
                throw fault;
            }
            thrown.addSuppressed(fault);
        }
        if (thrown instanceof Error error) {
            throw error;
        }
        throw (X) thrown;
    }
}
