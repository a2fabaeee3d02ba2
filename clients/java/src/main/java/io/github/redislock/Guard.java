package io.github.redislock;

import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Work that the loss of its lock interrupts. */
final class Guard implements Consumer<LockLostException> {
    private final Thread worker = Thread.currentThread();
    private boolean isOver;
    private @Nullable LockLostException interrupting;

    private Guard() {}

    @Override
    public synchronized void accept(LockLostException loss) {
        if (!isOver) {
            interrupting = loss;
            worker.interrupt();
        }
    }

    /** The loss that has interrupted the work, where one has. That interrupt ends here. */
    private synchronized @Nullable LockLostException end() {
        isOver = true;
        if (interrupting != null) {
            Thread.interrupted();
        }
        return interrupting;
    }

    static <T extends @Nullable Object, X extends Exception> T call(Grant grant, Work<T, X> work) throws X {
        return call(grant::isHeld, grant::listen, grant::close, () -> work.run(grant));
    }

    static <T extends @Nullable Object, X extends Exception> T call(Grants grants, SeveralLocks.Work<T, X> work) throws X {
        return call(grants::isHeld, grants::listen, grants::close, () -> work.run(grants));
    }

    @SuppressWarnings("unchecked") // what is thrown is X, or unchecked
    private static <T extends @Nullable Object, X extends Exception> T call(BooleanSupplier isHeld,
            Function<Guard, Runnable> listen, Runnable release, Callable<T> work) throws X {
        Guard guard = new Guard();
        Runnable listenNoMore = listen.apply(guard);
        T value = null;
        Throwable thrown = null;
        try {
            value = isHeld.getAsBoolean() ? work.call() : null; // the release tells a loss
        } catch (Throwable e) {
            thrown = e;
        }
        LockLostException loss = guard.end();
        listenNoMore.run(); // the grant may outlive its work
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
        if (loss != null && thrown instanceof InterruptedException) {
            LockException told = fault != null ? fault : Ownership.again(loss); // where the work had released it
            told.addSuppressed(thrown);
            throw told;
        }
        if (fault != null && fault != thrown) {
            thrown.addSuppressed(fault);
        }
        if (thrown instanceof Error error) {
            throw error;
        }
        throw (X) thrown;
    }
}
