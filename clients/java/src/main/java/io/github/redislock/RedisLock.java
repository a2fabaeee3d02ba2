package io.github.redislock;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The lock of a key, and how it is acquired. Making one calls nothing; it never changes, and any number of threads may
 * use it. Each method that sets something returns a new one.
 *
 * <p>Each acquire is an owner of its own: the same thread, too, waits for itself. A {@link Task} may enter again, and so may a
 * thread by {@link #asLock}.
 *
 * <pre>{@code
 * RedisLock lock = locks.get("lock:orders:42").waiting(Duration.ofSeconds(10));
 * try (Grant grant = lock.lock()) {
 *     pay(grant.token());
 * }
 * long paid = lock.call(grant -> { // the same, but a loss interrupts the work
 *     pay(grant.token());
 *     return grant.token();
 * });
 * try (Grant one = locks.get("lock:exports").permits(3).fixed(Duration.ofMinutes(1)).lock()) {
 *     System.out.println("one of three, for a minute at most");
 * }
 * }</pre>
 */
public final class RedisLock extends Lockable<Grant> {
    /** How it is acquired; times in nanoseconds. */
    record Terms(List<String> mode, long lease, boolean isFixed, long atMost, @Nullable Consumer<LockLostException> onLost) {}

    final Core core;
    final String key;
    final Terms terms;
    final @Nullable Task task;

    RedisLock(Core core, String key) {
        this(core, key, new Terms(List.of(), core.settings.lease(), false, 0, null), FOREVER, null);
    }

    RedisLock(Core core, String key, Terms terms, long wait, @Nullable Task task) {
        super(wait);
        this.core = core;
        this.key = key;
        this.terms = terms;
        this.task = task;
    }

    private RedisLock with(Terms changed) {
        return new RedisLock(core, key, changed, wait, task);
    }

    private RedisLock with(List<String> mode) {
        if (!terms.mode().isEmpty()) {
            throw LockException.misuse("a lock cannot both be shared and have permits");
        }
        return with(new Terms(mode, terms.lease(), terms.isFixed(), terms.atMost(), terms.onLost()));
    }

    /** Its key, without the client's prefix. */
    public String key() {
        return key;
    }

    /**
     * Acquired together with other shared holders: for readers, if the writers use neither this nor permits.
     *
     * @throws LockMisuseException if it has permits
     */
    public RedisLock shared() {
        return with(List.of("SHARED"));
    }

    /**
     * One of n permits: a semaphore, if all callers give the same n. Each permit is an owner of its own.
     *
     * @throws LockMisuseException if n is below 1, or the lock is shared
     */
    public RedisLock permits(int n) {
        if (n < 1) {
            throw LockException.misuse("a semaphore must have at least 1 permit, not " + n);
        }
        return with(List.of("LIMIT", String.valueOf(n)));
    }

    /**
     * How long {@link #lock}, {@link #lockInterruptibly} and {@link #call} wait; then they throw {@link LockBusyException}.
     * By default there is no limit.
     *
     * @throws LockMisuseException if the time is negative
     */
    public RedisLock waiting(Duration time) {
        return new RedisLock(core, key, terms, nanos(time), task);
    }

    /**
     * The lease is the whole life of the grant: only {@link Grant#extend} renews it. It counts from the grant.
     *
     * @throws LockMisuseException if it is below 1 ms
     */
    public RedisLock fixed(Duration lease) {
        return with(new Terms(terms.mode(), atLeast(1, lease), true, terms.atMost(), terms.onLost()));
    }

    /**
     * Ends the grant after this time: then it is lost. By default there is no limit.
     *
     * @throws LockMisuseException if it is below 1 ms
     */
    public RedisLock atMost(Duration time) {
        return with(new Terms(terms.mode(), terms.lease(), terms.isFixed(), atLeast(1, time), terms.onLost()));
    }

    /** Calls this on a thread of the client if the grant is lost, as {@link Grant#onLost} does. */
    public RedisLock onLost(Consumer<LockLostException> notify) {
        return with(new Terms(terms.mode(), terms.lease(), terms.isFixed(), terms.atMost(), notify));
    }

    /** Acquired by this task, which may hold it already: then the grant has one hold more. Not for a permit. */
    public RedisLock by(Task owner) {
        return new RedisLock(core, key, terms, wait, owner);
    }

    /** The key with the client's prefix. */
    String fullKey() {
        return core.settings.prefix() + key;
    }

    @Override
    Grant acquire(long wait, boolean isInterruptible) throws InterruptedException {
        return new Acquire(this, isInterruptible).within(wait);
    }

    /**
     * Takes over a grant that another process has detached. Unless this is {@link #fixed}, the session renews it from now
     * on. One release gives back all its holds.
     *
     * <pre>{@code
     * Grant grant = locks.get("lock:upload:7").lock();
     * grant.detach(Duration.ofMinutes(1)); // then in another process, which was given the owner and the token:
     * try (Grant adopted = others.get("lock:upload:7").adopt(grant.owner(), grant.token())) {
     *     pay(adopted.token());
     * }
     * }</pre>
     *
     * @param owner its {@link Grant#owner}
     * @param token its {@link Grant#token}
     * @throws LockLostException if it is gone
     */
    public Grant adopt(String owner, long token) {
        return uninterrupted(() -> new Acquire(this, false).acquire(null, owner, token, 0));
    }

    /**
     * Works under the lock, and interrupts the work if the lock is lost. An exception of the work is thrown as it is, with one
     * of the lock, if any, as a suppressed exception. A loss alone is a {@link LockLostException}, and so is the
     * InterruptedException of a work that a loss has interrupted.
     *
     * @throws LockBusyException if the time to wait is over
     * @throws InterruptedException if this thread is interrupted
     * @return what the work gives
     */
    public <T extends @Nullable Object, X extends Exception> T call(Work<T, X> work) throws X, InterruptedException {
        return new Working(lockInterruptibly()).call(work);
    }

    /**
     * Waits for the lock as long as it takes, works while it is held, and starts again when the work has ended or the lock
     * is lost, which interrupts the work. It ends by an interrupt of this thread, by what the work throws, and by an error
     * of the lock that does not pass. So the work has to let an InterruptedException out.
     *
     * <pre>{@code
     * ExecutorService executor = Executors.newSingleThreadExecutor();
     * Future<?> leading = executor.submit(() -> {
     *     locks.get("lock:scheduler").lead(grant -> {
     *         while (true) {
     *             schedule(grant.token());
     *             Thread.sleep(1000); // a loss interrupts it
     *         }
     *     });
     *     return null;
     * });
     * leading.cancel(true); // at the end of the program
     * executor.shutdown();
     * }</pre>
     *
     * @throws InterruptedException if this thread is interrupted
     */
    public <X extends Exception> void lead(Work<? extends @Nullable Object, X> work) throws X, InterruptedException {
        Working.lead(waiting(Duration.ofDays(100_000)), work);
    }

    /**
     * The same for java.util.concurrent: the owner is the thread, which may lock it again and has to unlock it. A lock of
     * a thread that has ended stays held for the life of the process, and a warning is logged.
     *
     * @throws LockMisuseException if it has permits
     */
    public ThreadLock asLock() {
        if (terms.mode().size() > 1) {
            throw LockException.misuse("a permit cannot be the lock of a thread");
        }
        return new ThreadLock(this);
    }
}
