package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Locks of threads, and the threads of the client. */
class ThreadsTest extends Bed {
    private static final Logger LOGGER = Logger.getLogger("io.github.redislock");
    private static final List<String> WARNINGS = new CopyOnWriteArrayList<>(); // of all tests

    static {
        LOGGER.setLevel(Level.ALL);
        LOGGER.setFilter(record -> WARNINGS.add(record.getMessage()));
    }

    /** The whole interface of java.util.concurrent.locks.Lock. */
    @ParameterizedTest
    @EnumSource
    void aThreadIsAnOwner(Client client) throws Exception {
        TestServer server = start();
        ThreadLock lock = locks(client, server).get("k").asLock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        lock.lock();
        lock.lockInterruptibly();
        assertTrue(lock.tryLock());
        assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
        assertEquals(4, lock.getHoldCount());
        assertEquals(4L, server.info("k", "holds"));
        assertTrue(lock.isHeldByCurrentThread());
        lock.check();
        FutureTask<Boolean> other = meanwhile(() -> {
            boolean isHeld = lock.isHeldByCurrentThread() || lock.tryLock() || lock.tryLock(50, TimeUnit.MILLISECONDS);
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
            return isHeld;
        });
        assertFalse(other.get());
        FutureTask<Long> waits = meanwhile(() -> {
            lock.lock();
            long token = lock.grant().token();
            lock.unlock();
            return token;
        });
        waiting(server, "k", 1);
        long token = lock.grant().token();
        for (int n = 0; n < 4; n++) {
            assertFalse(waits.isDone());
            lock.unlock();
        }
        assertTrue(waits.get() > token);
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    /** A loss is reported by check, by locking again, and by each unlock. */
    @ParameterizedTest
    @EnumSource
    void aLossOfAThread(Client client) throws Exception {
        TestServer server = start();
        ThreadLock lock = locks(client, server).get("k").asLock();
        lock.lock();
        lock.lock();
        server.run("DEL k");
        isLost(lock.grant());
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(LockLostException.class, lock::check);
        assertThrows(LockLostException.class, lock::lock);
        assertThrows(LockLostException.class, lock::unlock);
        assertThrows(LockLostException.class, lock::unlock);
        lock.lock();
        lock.unlock();
        assertNull(server.info("k", "owner"));
    }

    /** A thread that ends without unlock: the lock stays held, and a warning names both. */
    @ParameterizedTest
    @EnumSource
    void aThreadThatEndsWithoutUnlock(Client client) throws Exception {
        TestServer server = start();
        Locks locks = closing(builder(client, server).lease(Duration.ofSeconds(1)).build());
        String key = "forgotten-" + client;
        Thread thread = new Thread(() -> locks.get(key).asLock().lock(), "careless");
        thread.start();
        thread.join();
        eventually("a warning", () -> WARNINGS.stream().anyMatch(text -> text.contains(key) && text.contains("careless")));
        assertNotNull(server.info(key, "owner"));
    }

    /**
     * Virtual threads that are pinned by `synchronized`, as many as there are processors, do not stop the client: its own
     * threads are platform threads.
     */
    @ParameterizedTest
    @EnumSource
    void pinnedVirtualThreads(Client client) throws Exception {
        Executor virtual;
        try {
            virtual = (Executor) java.util.concurrent.Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (NoSuchMethodException e) {
            Assumptions.abort("this Java has no virtual threads");
            return;
        }
        Locks locks = locks(client, start());
        Grant grant = locks.get("k").lock();
        List<FutureTask<Boolean>> all = new ArrayList<>();
        for (int n = 0; n < 2 * Runtime.getRuntime().availableProcessors(); n++) {
            FutureTask<Boolean> one = new FutureTask<>(() -> {
                synchronized (new Object()) {
                    return locks.get("k").tryLock(Duration.ofSeconds(2)).isPresent();
                }
            });
            all.add(one);
            virtual.execute(one);
        }
        for (FutureTask<Boolean> one : all) {
            assertFalse(one.get(20, TimeUnit.SECONDS));
        }
        assertTrue(grant.isHeld());
        grant.release();
    }

    /** No thread of the user runs anything of it, and no thread is left when there is nothing to do. */
    @ParameterizedTest
    @EnumSource
    void callbacksHaveThreadsOfTheirOwn(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        LinkedBlockingQueue<Thread> called = new LinkedBlockingQueue<>();
        Grant blocks = locks.get("blocks").lock();
        blocks.onLost(why -> {
            called.add(Thread.currentThread());
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        server.run("DEL blocks");
        Thread thread = called.poll(10, TimeUnit.SECONDS);
        assertTrue(thread != null && thread.isDaemon() && thread.getName().startsWith("redis-lock-work"), String.valueOf(thread));
        Grant next = locks.get("k").lock(); // the session goes on
        server.run("DEL k");
        isLost(next);
        LinkedBlockingQueue<String> late = new LinkedBlockingQueue<>();
        next.onLost(why -> late.add(why.getMessage()));
        assertTrue(late.poll(10, TimeUnit.SECONDS).contains("deleted"));
        thread.interrupt();
        eventually("it ends", () -> !thread.isAlive());
    }
}
