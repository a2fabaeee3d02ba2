package io.github.redislock;

import java.time.Duration;
import java.util.Optional;

/**
 * A lock, or several, and the ways of java.util.concurrent to acquire it: callers are served in the order of their calls.
 *
 * <pre>{@code
 * Optional<Grant> perhaps = locks.get("lock:orders:42").tryLock(Duration.ofSeconds(2));
 * if (perhaps.isPresent()) {
 *     try (Grant grant = perhaps.get()) {
 *         pay(grant.token());
 *     }
 * }
 * }</pre>
 *
 * <p>An acquire that fails leaves neither a hold nor a place in line. Each may throw
 * <ul>
 * <li>{@link LockUnavailableException} if the server does not answer within the time to wait, which is at least one reply
 * timeout here;
 * <li>{@link LockRefusedException} if the server refuses it, for example for want of a right or of the module;
 * <li>{@link LockLostException} if the lock was lost before it was handed over;
 * <li>{@link LockDeadlockException} or {@link LockNotAloneException}, only for a caller that holds a lock already, by a
 * {@link Task} or as a {@link ThreadLock};
 * <li>{@link LockMisuseException} if the client is closed, or the key is of another type.
 * </ul>
 *
 * @param <G> what an acquire gives
 */
public abstract class Lockable<G extends AutoCloseable> {
    static final long FOREVER = -1;

    /** How long {@link #lock} waits, in nanoseconds. */
    final long wait;

    Lockable(long wait) {
        this.wait = wait;
    }

    /** Acquires within this time in nanoseconds; below 0: without a limit. */
    abstract G acquire(long wait, boolean isInterruptible) throws InterruptedException;

    static <G> G uninterrupted(Core.Attempt<G, InterruptedException> acquire) {
        try {
            return acquire.make();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // only where that is allowed
        }
    }

    /**
     * Acquires, and waits for as long as {@code waiting} says, by default without a limit. An interrupt does not end the
     * wait, and is kept.
     *
     * @throws LockBusyException if the time is over
     * @return held until its release or its loss
     */
    public G lock() {
        return uninterrupted(() -> acquire(wait, false));
    }

    /**
     * As {@link #lock}, but an interrupt ends the wait.
     *
     * @throws LockBusyException if the time is over
     * @throws InterruptedException if this thread is interrupted
     * @return held until its release or its loss
     */
    public G lockInterruptibly() throws InterruptedException {
        return acquire(wait, true);
    }

    /** Acquires if that is possible now; else it is empty. It waits for one reply of the server. */
    public Optional<G> tryLock() {
        try {
            return Optional.of(uninterrupted(() -> acquire(0, false)));
        } catch (LockBusyException e) {
            return Optional.empty();
        }
    }

    /**
     * Acquires within this time; else it is empty. Zero does not wait.
     *
     * @throws InterruptedException if this thread is interrupted
     * @throws LockMisuseException if the time is negative
     */
    public Optional<G> tryLock(Duration wait) throws InterruptedException {
        try {
            return Optional.of(acquire(nanos(wait), true));
        } catch (LockBusyException e) {
            return Optional.empty();
        }
    }

    /** A time of at least so many milliseconds, in nanoseconds. */
    static long atLeast(long millis, Duration time) {
        if (time.toMillis() < millis) {
            throw LockException.misuse("must be at least " + millis + " ms: " + time);
        }
        return time.toNanos();
    }

    static long nanos(Duration time) {
        if (time.isNegative()) {
            throw LockException.misuse("a time must not be negative: " + time);
        }
        return time.compareTo(Duration.ofDays(3650)) > 0 ? FOREVER : time.toNanos();
    }
}
