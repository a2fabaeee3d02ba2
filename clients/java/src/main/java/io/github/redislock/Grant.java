package io.github.redislock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A lock that was taken, to be given back by {@link #release} or the end of a try-with-resources. Any thread may use it.
 *
 * <p>No client can promise that it still has the lock when its write arrives. So what is written to has to look at the
 * {@link #token}.
 */
public final class Grant implements AutoCloseable {
    private final Ownership held;
    private final AtomicBoolean isGivenBack = new AtomicBoolean();
    private List<Runnable> listening = List.of(); // what ends that

    Grant(Ownership held) {
        this.held = held;
    }

    /** The name of the lock. */
    public String key() {
        return held.key();
    }

    /** In whose name it was taken. */
    public String owner() {
        return held.owner();
    }

    /** The fencing token: later owners of the lock have higher ones. */
    public long token() {
        return held.token();
    }

    /** How often its owner has taken it. */
    public int holds() {
        return held.holds();
    }

    /** Whether it is neither released nor told as lost. Asks nobody; {@link #check} asks the server. */
    public boolean isHeld() {
        return !isGivenBack.get() && held.isHeld();
    }

    /** For how long it is held for certain, if nothing more is heard of it. */
    public Duration remaining() {
        return isGivenBack.get() ? Duration.ZERO : held.remaining();
    }

    /** Asks the server whether the lock is still held, and throws {@link LockLostException} when it is not. */
    public void check() {
        Attempt.await(checked());
    }

    /** As {@link #check}. */
    public CompletableFuture<@Nullable Void> checkAsync() {
        return held.handedOver(checked());
    }

    private CompletableFuture<@Nullable Void> checked() {
        return isGivenBack.get() ? released() : held.check();
    }

    /** Whether the error tells the loss of this lock, and not of another. */
    boolean isLossOf(Throwable error) {
        return held.isLossOf(error);
    }

    /** Gives it this lease, which begins now. */
    public void extend(Duration lease) {
        Attempt.await(isGivenBack.get() ? released() : held.extend(lease));
    }

    /**
     * Lets go of it without giving the lock back: nobody keeps it any more, {@link Locks#close} neither, and it ends
     * after this lease, or is adopted. For a lock that was taken once.
     */
    public void detach(Duration lease) {
        if (!isGivenBack.compareAndSet(false, true)) {
            Attempt.await(released());
        }
        try {
            Attempt.await(held.detach(lease));
        } catch (LockMisuseException e) {
            isGivenBack.set(false); // it is as it was
            throw e;
        }
        listenNoMore();
    }

    /** From a writer to a reader, without letting go. */
    public void downgrade() {
        Attempt.await(isGivenBack.get() ? released() : held.downgrade());
    }

    /** Runs this once when the lock is lost, by a thread of this client; at once where it is lost already. */
    public void onLost(Consumer<LockLostException> listener) {
        Runnable end = listen(listener);
        synchronized (this) {
            listening = Stream.concat(listening.stream(), Stream.of(end)).toList();
        }
        if (isGivenBack.get()) {
            listenNoMore();
        }
    }

    /** The same, and gives what ends that. */
    Runnable listen(Consumer<LockLostException> listener) {
        return held.onLost(listener);
    }

    /** Gives the lock back. That it had been lost, or that the server gave no answer, is thrown. */
    public void release() {
        Caller caller = Caller.here();
        Attempt.await(caller, giveBack() ? held.release(caller) : released());
    }

    /** As {@link #release}. */
    public CompletableFuture<@Nullable Void> releaseAsync() {
        return held.handedOver(giveBack() ? held.release() : released());
    }

    /** Whether this gives it back. Of the holds of others it hears no more. */
    private boolean giveBack() {
        boolean isFirst = isGivenBack.compareAndSet(false, true);
        if (isFirst) {
            listenNoMore();
        }
        return isFirst;
    }

    private void listenNoMore() {
        List<Runnable> ends;
        synchronized (this) {
            ends = listening;
            listening = List.of();
        }
        ends.forEach(Runnable::run);
    }

    private CompletableFuture<@Nullable Void> released() {
        return CompletableFuture.failedFuture(new LockMisuseException(key() + ": released already", null));
    }

    /** As {@link #release}, and nothing where that was called. */
    @Override
    public void close() {
        Caller caller = Caller.here();
        if (giveBack()) {
            Attempt.await(caller, held.release(caller));
        }
    }

    CompletableFuture<@Nullable Void> closeAsync() {
        return giveBack() ? held.release() : CompletableFuture.completedFuture(null);
    }

    @Override
    public String toString() {
        return key() + " (" + token() + (isHeld() ? ", held)" : ")");
    }
}
