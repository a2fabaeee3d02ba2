package io.github.redislock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Whether a grant is held, released or lost. Its end comes once, and a loss is told to each listener once. */
final class Fate {
    private final Executor executor;
    private final List<Consumer<LockLostException>> listeners = new ArrayList<>();
    private volatile boolean held = true;
    private volatile @Nullable LockLostException loss;

    Fate(Executor executor) {
        this.executor = executor;
    }

    boolean isHeld() {
        return held;
    }

    @Nullable LockLostException loss() {
        return loss;
    }

    /** Gives what ends that. */
    Runnable onLost(Consumer<LockLostException> listener) {
        LockLostException told;
        synchronized (this) {
            told = loss;
            if (told == null) {
                listeners.add(listener);
                return () -> forget(listener);
            }
        }
        LockLostException error = told;
        executor.execute(() -> listener.accept(error));
        return () -> { };
    }

    private synchronized void forget(Consumer<LockLostException> listener) {
        listeners.remove(listener);
    }

    /** Whether this ends it, as released. */
    synchronized boolean release() {
        boolean was = held;
        held = false;
        return was;
    }

    /** Ends it as lost, and does this before that is told. */
    void lose(LockLostException error, Runnable over) {
        List<Consumer<LockLostException>> told;
        synchronized (this) {
            if (!held) {
                return;
            }
            loss = error;
            held = false;
            told = List.copyOf(listeners);
            listeners.clear();
        }
        over.run();
        told.forEach(listener -> executor.execute(() -> listener.accept(error)));
    }
}
