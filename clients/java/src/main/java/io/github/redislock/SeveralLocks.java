package io.github.redislock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;

/**
 * The locks of several keys, acquired all or none: one after the other in the order of their names, so that two callers
 * never wait for each other. They have one owner, and one time to wait.
 *
 * <pre>{@code
 * try (Grants seats = locks.all("lock:seats:7", "lock:seats:8").waiting(Duration.ofSeconds(2)).lock()) {
 *     for (Grant seat : seats.all()) {
 *         pay(seat.token());
 *     }
 * }
 * }</pre>
 */
public final class SeveralLocks extends Lockable<Grants> {
    private final Locks locks;
    private final List<String> keys;

    SeveralLocks(Locks locks, List<String> keys, long wait) {
        super(wait);
        this.locks = locks;
        this.keys = keys;
    }

    /**
     * How long {@link #lock} and {@link #lockInterruptibly} wait, for all together; then they throw
     * {@link LockBusyException}. By default there is no limit.
     *
     * @throws LockMisuseException if the time is negative
     */
    public SeveralLocks waiting(Duration time) {
        return new SeveralLocks(locks, keys, nanos(time));
    }

    @Override
    Grants acquire(long wait, boolean isInterruptible) throws InterruptedException {
        long end = Core.now() + wait;
        Task task = locks.task();
        List<Grant> grants = new ArrayList<>();
        try {
            for (String key : new TreeSet<>(keys)) {
                long left = wait <= 0 ? wait : Math.max(0, end - Core.now());
                grants.add(locks.get(key).by(task).acquire(left, isInterruptible));
            }
            for (Grant grant : grants) {
                LockLostException lost = grant.loss();
                if (lost != null) { // while the others were waited for
                    throw lost;
                }
            }
            return new Grants(grants);
        } catch (Throwable e) {
            try {
                new Grants(grants).close();
            } catch (LockException failed) {
                e.addSuppressed(failed);
            }
            throw e;
        }
    }
}
