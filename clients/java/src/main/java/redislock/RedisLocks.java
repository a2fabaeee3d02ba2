package redislock;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.function.BooleanSupplier;

/**
 * Locks of the server module redis-lock as {@link Lock}. To use them, copy this file, Grant, Calls,
 * LockServer, LockLostException, and JedisLockServer or LettuceLockServer (with SpringLocks).
 *
 * <pre>{@code
 * var locks = new RedisLocks(new JedisLockServer(connections, config), "billing", Duration.ofSeconds(30));
 * try (RedisLock lock = locks.lock("lock:orders:42")) {
 *     pay(lock.token()); // claims, reads, writes
 * }
 * locks.executeWithLock("lock:orders:42", Duration.ofMinutes(1), // waits so long for the lock
 *         lock -> pay(lock.token())); // interrupted when the lock is lost
 * }</pre>
 *
 * <ul>
 *   <li>Waiting is one call for the full time, on a connection of its own. An interrupted wait is
 *       cancelled, and leaves neither a hold nor a place in the queue.
 *   <li>Locks are renewed every third of their lease, all by one scheduler. A lock is lost when the
 *       server says so, or when a lease has passed, by the monotonic clock, since the last call that
 *       was answered was sent. That is told at once: executeWithLock interrupts its work; check and
 *       unlock throw LockLostException, and so does lock until all holds are unlocked.
 *   <li>The owner is the thread, which can lock again what it holds. Each lock needs its unlock.
 *   <li>A call whose answer was lost is sent again, and does not count twice.
 *   <li>close, which also runs when the JVM ends, stops renewing and waiting, and releases.
 * </ul>
 *
 * <p>What no client can promise is that the lock is still held when a write arrives. So what is written
 * to has to look at the token. In SQL, claim the row, then read, then write under the claim:
 *
 * <pre>{@code
 * UPDATE orders SET fence = :token WHERE id = 42 AND fence <= :token  -- no row: stale, stop
 * SELECT state FROM orders WHERE id = 42
 * UPDATE orders SET state = 'paid' WHERE id = 42 AND fence = :token   -- no row: stale, not written
 * }</pre>
 *
 * <p>docs/fencing.md of redis-lock says why, and has the other cases. In Redis it is LOCK.FENCE in the
 * script that writes.
 */
public final class RedisLocks implements AutoCloseable {
    private static final long FOR_EVER = TimeUnit.DAYS.toNanos(3650);
    /** How long at least, and at most, to try to reach the server, where no lease says it. */
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(3);
    private static final long OUTAGE = TimeUnit.SECONDS.toNanos(60);

    private final LockServer server;
    private final Calls calls;
    private final String process;
    private final Duration lease;
    private final Map<Calls.Place, Grant> grants = new ConcurrentHashMap<>();
    private final Set<Calls.Place> waiting = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    /** Work that may fail, and that looks at its lock or hands on its token. */
    public interface Work<T> {
        T run(RedisLock lock) throws Exception;
    }

    public RedisLocks(LockServer server, String service, Duration lease) {
        this.server = server;
        this.calls = new Calls(server);
        this.lease = lease;
        this.process = String.join(":", service, host(), String.valueOf(ProcessHandle.current().pid()),
                UUID.randomUUID().toString());
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
    }

    /** The lock of a key, not taken yet. */
    public RedisLock get(String key) {
        return new RedisLock(key);
    }

    /** The lock of a key, taken: for try-with-resources. */
    public RedisLock lock(String key) {
        RedisLock lock = get(key);
        lock.lock();
        return lock;
    }

    /** Works under the lock, and interrupts the work when the lock is lost. */
    public <T> T executeWithLock(String key, Duration wait, Work<T> work) throws Exception {
        RedisLock lock = get(key);
        if (!lock.tryLock(wait.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new TimeoutException("another owner holds " + key);
        }
        try (lock) {
            Grant grant = lock.grant();
            grant.guard(1);
            try {
                return work.run(lock);
            } catch (Exception e) {
                lock.check(); // that it was interrupted is not what went wrong
                throw e;
            } finally {
                grant.guard(-1);
            }
        }
    }

    void forget(Calls.Place place) {
        grants.remove(place);
    }

    public boolean isClosed() {
        return closed;
    }

    /** Stops renewing and waiting, tells the holders, and releases all locks. */
    @Override
    public synchronized void close() {
        closed = true;
        waiting.forEach(calls::cancel);
        List<Future<?>> releases = new ArrayList<>();
        grants.values().forEach(grant -> releases.add(Grant.CALLS.submit(() -> grant.giveBack(0, "closed"))));
        for (Future<?> release : releases) {
            try {
                release.get(PATIENCE, TimeUnit.NANOSECONDS);
            } catch (InterruptedException | ExecutionException | TimeoutException e) {
                // The lease ends by itself.
            }
        }
    }

    /** The lock of a key, for any thread. */
    public final class RedisLock implements Lock, AutoCloseable {
        private final String key;

        private RedisLock(String key) {
            this.key = key;
        }

        @Override
        public void lock() {
            try {
                acquire(key, FOR_EVER, false);
            } catch (InterruptedException e) {
                throw new AssertionError(e); // only where it may be interrupted
            }
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            acquire(key, FOR_EVER, true);
        }

        @Override
        public boolean tryLock() {
            try {
                return acquire(key, 0, false);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
            return acquire(key, Math.min(unit.toNanos(time), FOR_EVER), true);
        }

        @Override
        public void unlock() {
            grant().unlock();
        }

        /** Unlocks. */
        @Override
        public void close() {
            unlock();
        }

        @Override
        public Condition newCondition() {
            throw new UnsupportedOperationException("a lock of several processes has no conditions");
        }

        /** The fencing token: later owners of the lock have higher ones. */
        public long token() {
            return grant().token();
        }

        /** Throws when this thread has lost the lock. It looks at the clock, not at the server. */
        public void check() {
            grant().check();
        }

        /** How long the lock is this thread's for certain, if it is not renewed. */
        public Duration remaining() {
            return Duration.ofNanos(grant().until() - System.nanoTime());
        }

        private Grant grant() {
            Grant grant = grants.get(place(key));
            if (grant == null) {
                throw new IllegalMonitorStateException("this thread does not hold the lock");
            }
            return grant;
        }
    }

    private Calls.Place place(String key) {
        return new Calls.Place(key, process + ":" + Thread.currentThread().getId());
    }

    private boolean acquire(String key, long wait, boolean interruptible) throws InterruptedException {
        if (closed) {
            throw new IllegalStateException("closed");
        }
        Calls.Place place = place(key);
        if (grants.containsKey(place)) {
            grants.get(place).enterAgain(lease);
            return true;
        }
        BooleanSupplier end = () -> closed || interruptible && Thread.currentThread().isInterrupted();
        long begun = System.nanoTime();
        long until = begun + Math.max(wait, PATIENCE);
        String[] acquire = {"LOCK.ACQUIRE", key, place.owner(), "PX", String.valueOf(lease.toMillis()), "HOLDS", "1"};
        for (;;) {
            boolean waited = false;
            long left = wait - (System.nanoTime() - begun);
            long reach = System.nanoTime() + Math.max(PATIENCE, Math.min(left, OUTAGE));
            try {
                Calls.Answer answer = calls.call(reach, end, acquire);
                List<?> granted = answer.fields();
                left = wait - (System.nanoTime() - begun);
                if (granted == null && TimeUnit.NANOSECONDS.toMillis(left) > 0) {
                    waited = true;
                    granted = await(place, wait == FOR_EVER ? 0 : left, interruptible, acquire);
                }
                if (granted != null && (waited || System.nanoTime() - answer.sent() > lease.toNanos() / 3)) {
                    // When the lease began is not known, or long ago. So it begins anew.
                    reach = System.nanoTime() + PATIENCE;
                    answer = calls.call(reach, end, "LOCK.RENEW", key, place.owner(), "TOKEN", granted.get(0).toString());
                }
                if (answer.lost() != null && left > 0) {
                    continue; // the lease had passed before its answer was here
                }
                if (answer.fields() != null) {
                    Grant grant = new Grant(this, calls, place, (Long) answer.fields().get(0));
                    grants.put(place, grant);
                    grant.trust(answer);
                }
                if (closed) { // and close may have looked before
                    grants.remove(place);
                    calls.cancel(place);
                    throw new IllegalStateException("closed");
                }
                return answer.fields() != null;
            } catch (RuntimeException e) {
                if (waited && Calls.passes(e) && !end.getAsBoolean() && System.nanoTime() - until < 0) {
                    continue; // the connection broke
                }
                if (Calls.passes(e)) {
                    calls.cancel(place); // the server may have done what it was asked
                }
                if (interruptible && Thread.interrupted()) {
                    throw (InterruptedException) new InterruptedException().initCause(e);
                }
                throw e;
            }
        }
    }

    /** Stands in the queue. */
    private List<?> await(Calls.Place place, long nanos, boolean interruptible, String[] acquire) throws InterruptedException {
        List<String> command = new ArrayList<>(List.of(acquire));
        command.addAll(List.of("BLOCK", String.valueOf(TimeUnit.NANOSECONDS.toMillis(nanos))));
        Duration readTimeout = nanos == 0 ? Duration.ZERO : Duration.ofNanos(nanos).plusSeconds(5);
        boolean interrupted = false;
        waiting.add(place);
        try (LockServer.Wait wait = server.wait(readTimeout, command.toArray(String[]::new))) {
            for (;;) {
                try {
                    return wait.answer().get();
                } catch (ExecutionException e) {
                    throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e);
                } catch (InterruptedException e) {
                    interrupted = true;
                    if (interruptible) {
                        calls.cancel(place);
                        if (!isNilSoon(wait.answer())) {
                            wait.close();
                            calls.cancel(place); // the grant came after all, or may have
                        }
                        throw e;
                    }
                }
            }
        } finally {
            waiting.remove(place);
            if (interrupted && !interruptible) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static boolean isNilSoon(Future<List<?>> answer) {
        try {
            return answer.get(1, TimeUnit.SECONDS) == null;
        } catch (InterruptedException | ExecutionException | TimeoutException e) {
            return false;
        }
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }
}
