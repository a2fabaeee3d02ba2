package io.github.redislock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
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

    /** Gives it this lease, which begins now. */
    public void extend(Duration lease) {
        Attempt.await(isGivenBack.get() ? released() : held.extend(lease));
    }

    /**
     * Lets go of it without giving the lock back: nobody keeps it any more, {@link Locks#close} neither, and it ends
     * after this lease, or is adopted. For a lock that was taken once.
     */
    public void detach(Duration lease) {
        Attempt.await(isGivenBack.compareAndSet(false, true) ? held.detach(lease) : released());
    }

    /** From a writer to a reader, without letting go. */
    public void downgrade() {
        Attempt.await(isGivenBack.get() ? released() : held.downgrade());
    }

    /** Runs this once when the lock is lost, by a thread of this client; at once where it is lost already. */
    public void onLost(Consumer<LockLostException> listener) {
        held.onLost(listener);
    }

    /** Gives the lock back. That it had been lost, or that the server gave no answer, is thrown. */
    public void release() {
        Caller caller = Caller.here();
        Attempt.await(caller, isGivenBack.compareAndSet(false, true) ? held.release(caller) : released());
    }

    /** As {@link #release}. */
    public CompletableFuture<@Nullable Void> releaseAsync() {
        return held.handedOver(isGivenBack.compareAndSet(false, true) ? held.release() : released());
    }

    private CompletableFuture<@Nullable Void> released() {
        return CompletableFuture.failedFuture(new LockMisuseException(key() + ": released already", null));
    }

    /** As {@link #release}, and nothing where that was called. */
    @Override
    public void close() {
        Caller caller = Caller.here();
        if (isGivenBack.compareAndSet(false, true)) {
            Attempt.await(caller, held.release(caller));
        }
    }

    CompletableFuture<@Nullable Void> closeAsync() {
        return isGivenBack.compareAndSet(false, true) ? held.release() : CompletableFuture.completedFuture(null);
    }

    @Override
    public String toString() {
        return key() + " (" + token() + (isHeld() ? ", held)" : ")");
    }
}
