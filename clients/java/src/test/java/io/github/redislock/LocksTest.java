package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What a lock does, on a server that answers. */
class LocksTest extends Bed {
    private static final Duration LONG = Duration.ofSeconds(20);

    @ParameterizedTest
    @EnumSource
    void alone(Client client) throws Exception {
        TestServer server = start();
        Locks locks = closing(builder(client, server).prefix("lock:").build());
        RedisLock lock = locks.get("k");
        Grant grant = lock.lock();
        assertTrue(grant.isHeld());
        assertEquals("lock:k", grant.key());
        assertTrue(grant.owner().startsWith("test:"));
        assertEquals(grant.owner(), server.info("lock:k", "owner"));
        assertEquals(grant.token(), server.info("lock:k", "token"));
        assertTrue(grant.remaining().toMillis() > 5000);
        grant.check();
        assertTrue(lock.tryLock().isEmpty());
        thrown(LockBusyException.class, 1500, () -> lock.waiting(Duration.ofMillis(200)).lock());
        assertTrue(lock.tryLock(Duration.ofMillis(100)).isEmpty());
        grant.release();
        assertFalse(grant.isHeld());
        assertThrows(LockMisuseException.class, grant::release);
        grant.close();
        assertNull(server.info("lock:k", "owner"));
        try (Grant next = lock.tryLock().orElseThrow()) {
            assertTrue(next.token() > grant.token());
            assertNotEquals(grant.owner(), next.owner());
        }
        assertNull(server.info("lock:k", "owner"));
    }

    /** An interrupt ends lockInterruptibly and leaves no place; lock goes on waiting and keeps the interrupt. */
    @ParameterizedTest
    @EnumSource
    void interrupts(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        Grant grant = locks.get("k").lock();
        FutureTask<Grant> ends = new FutureTask<>(() -> locks.get("k").lockInterruptibly());
        Thread thread = new Thread(ends);
        thread.start();
        waiting(server, "k", 1);
        thread.interrupt();
        assertTrue(assertThrows(ExecutionException.class, ends::get).getCause() instanceof InterruptedException);
        waiting(server, "k", 0);
        FutureTask<Boolean> goesOn = new FutureTask<>(() -> {
            try (Grant mine = locks.get("k").lock()) {
                return Thread.currentThread().isInterrupted();
            }
        });
        thread = new Thread(goesOn);
        thread.start();
        waiting(server, "k", 1);
        thread.interrupt();
        thread.interrupt();
        waiting(server, "k", 1);
        grant.release();
        assertTrue(goesOn.get());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> locks.get("k").lockInterruptibly());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> locks.get("k").tryLock(LONG));
        Thread.currentThread().interrupt();
        locks.get("k").lock().release();
        assertTrue(Thread.interrupted());
    }

    /** A task enters again what it holds. A permit is neither shared nor of a thread. */
    @ParameterizedTest
    @EnumSource
    void tasksAndPermits(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        Task task = locks.task();
        Grant a = locks.get("a").by(task).lock();
        assertSame(a, locks.get("a").by(task).lock());
        assertEquals(2, a.holds());
        assertEquals(2L, server.info("a", "holds"));
        a.release();
        assertTrue(a.isHeld());
        RedisLock two = locks.get("s").permits(2);
        Grant permit = two.by(task).lock();
        assertNotEquals(permit.owner(), two.by(task).lock().owner());
        assertTrue(two.tryLock().isEmpty());
        assertThrows(LockMisuseException.class, two::shared);
        assertThrows(LockMisuseException.class, two::asLock);
        assertThrows(LockMisuseException.class, () -> locks.get("k").permits(0));
    }

    @ParameterizedTest
    @EnumSource
    void leases(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        LinkedBlockingQueue<LockLostException> lost = new LinkedBlockingQueue<>();
        Grant fixed = locks.get("fixed").fixed(Duration.ofMillis(300)).onLost(lost::add).lock();
        assertTrue(fixed.remaining().toMillis() <= 300);
        fixed.extend(Duration.ofMillis(600));
        assertTrue(fixed.remaining().toMillis() > 300);
        assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("expired"));
        assertThrows(LockLostException.class, fixed::release);
        Grant bounded = locks.get("bounded").atMost(Duration.ofMillis(100)).onLost(lost::add).lock();
        assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("maximum"));
        eventually("it is free", () -> server.info("bounded", "owner") == null);
        assertThrows(LockLostException.class, bounded::check);
        assertThrows(LockMisuseException.class, () -> locks.get("k").fixed(Duration.ofNanos(1)));
        Grant grant = locks.get("k").lock();
        assertThrows(LockMisuseException.class, () -> grant.extend(Duration.ofMillis(10)));
        grant.extend(Duration.ofSeconds(60));
        assertTrue(grant.remaining().toMillis() > 50_000);
        grant.release();
        Grant shorter = locks.get("shorter").fixed(Duration.ofHours(1)).onLost(lost::add).lock();
        shorter.extend(Duration.ofMillis(50));
        assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("expired"));
        locks.get("k").fixed(Duration.ofHours(1)).lock().release();
        locks.get("k").atMost(Duration.ofHours(1)).lock().detach(Duration.ofSeconds(1));
        isIdle(locks);
    }

    @ParameterizedTest
    @EnumSource
    void detachAndAdopt(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        Locks others = locks(client, server);
        Grant grant = locks.get("k").lock();
        grant.detach(Duration.ofSeconds(30));
        assertFalse(grant.isHeld());
        grant.close();
        locks.close();
        Grant adopted = others.get("k").adopt(grant.owner(), grant.token());
        assertEquals(grant.token(), adopted.token());
        adopted.check();
        adopted.release();
        assertNull(server.info("k", "owner"));
        assertThrows(LockLostException.class, () -> others.get("k").adopt(grant.owner(), grant.token()));
    }

    /** All or none, in one order. */
    @ParameterizedTest
    @EnumSource
    void several(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        try (Grants grants = locks.all("b", "a", "b").lock()) {
            assertEquals(List.of("a", "b"), grants.all().stream().map(Grant::key).toList());
            assertTrue(locks.all("c", "b").tryLock().isEmpty());
            assertNull(server.info("c", "owner"));
            thrown(LockBusyException.class, 2000, () -> locks.all("c", "b").waiting(Duration.ofMillis(100)).lock());
        }
        assertNull(server.info("a", "owner"));
        assertNull(server.info("b", "owner"));
    }

    /** A loss interrupts the work; an error of the work comes first, what was wrong with the lock is added. */
    @ParameterizedTest
    @EnumSource
    void work(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        assertEquals("done", locks.get("k").call(grant -> "done"));
        LockLostException lost = assertThrows(LockLostException.class, () -> locks.get("k").call(grant -> {
            server.run("DEL k");
            Thread.sleep(60_000);
            return null;
        }));
        assertTrue(lost.getMessage().contains("deleted"), lost.getMessage());
        assertFalse(Thread.interrupted());
        IllegalStateException own = assertThrows(IllegalStateException.class, () -> locks.get("k").call(grant -> {
            server.run("DEL k");
            while (grant.loss() == null) {
                Thread.onSpinWait(); // which is not interrupted
            }
            throw new IllegalStateException("own");
        }));
        assertTrue(own.getSuppressed()[0] instanceof LockLostException);
        assertFalse(Thread.interrupted());
    }

    /** The leader leads again when its lock was lost, and ends by an interrupt, and by its own errors. */
    @ParameterizedTest
    @EnumSource
    void lead(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        AtomicInteger terms = new AtomicInteger();
        CountDownLatch leads = new CountDownLatch(2);
        FutureTask<Object> leader = new FutureTask<>(() -> {
            locks.get("k").lead(grant -> {
                terms.incrementAndGet();
                leads.countDown();
                Thread.sleep(60_000);
                return null;
            });
            return null;
        });
        Thread thread = new Thread(leader);
        thread.start();
        eventually("it leads", () -> terms.get() == 1);
        server.run("DEL k");
        assertTrue(leads.await(10, TimeUnit.SECONDS));
        thread.interrupt();
        assertTrue(assertThrows(ExecutionException.class, leader::get).getCause() instanceof InterruptedException);
        assertNull(server.info("k", "owner"));
        assertThrows(ArithmeticException.class, () -> locks.get("k").lead(grant -> 1 / Integer.parseInt("0")));
    }

    /** An observer that throws does not change the outcome of a call. */
    @ParameterizedTest
    @EnumSource
    void observer(Client client) throws Exception {
        TestServer server = start();
        LinkedBlockingQueue<String> seen = new LinkedBlockingQueue<>();
        LockObserver observer = new LockObserver() {
            @Override
            public void acquired(String key, Duration took, Throwable error) {
                seen.add("acquired " + key + (error == null ? "" : " " + error.getClass().getSimpleName()));
                throw new IllegalStateException("observer");
            }

            @Override
            public void released(String key, Duration held, Throwable error) {
                seen.add("released " + key + (error == null ? "" : " " + error.getClass().getSimpleName()));
                throw new IllegalStateException("observer");
            }

            @Override
            public void lost(String key, LockLostException error) {
                seen.add("lost " + key);
            }

            @Override
            public void connection(String name, Throwable error) {
                seen.add(error == null ? "back" : "broken");
            }
        };
        Locks locks = closing(builder(client, server).observer(observer).build());
        Grant grant = locks.get("k").lock();
        locks.get("k").tryLock();
        grant.release();
        assertEquals(List.of("acquired k", "acquired k LockBusyException", "released k"), List.copyOf(seen));
        seen.clear();
        grant = locks.get("k").lock();
        server.run("DEL k");
        isLost(grant);
        assertThrows(LockLostException.class, grant::close);
        eventually("seen", () -> seen.containsAll(List.of("acquired k", "lost k", "released k LockLostException")));
        grant = locks.get("k").lock();
        server.order("kill");
        eventually("broken", () -> seen.contains("broken"));
        server.order("restart");
        eventually("back", () -> seen.contains("back"));
    }

    /** Close releases all, ends waits, closes the session, and is not an error twice. */
    @ParameterizedTest
    @EnumSource
    void closing(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        Grant grant = locks.get("k").lock();
        Grant fixed = locks.get("fixed").fixed(LONG).lock();
        FutureTask<Grant> waits = meanwhile(() -> locks.get("k").lock());
        waiting(server, "k", 1);
        locks.close();
        assertTrue(assertThrows(ExecutionException.class, waits::get).getCause() instanceof LockMisuseException);
        assertNull(server.info("k", "owner"));
        assertNull(server.info("fixed", "owner"));
        assertEquals(List.of(), server.sessions());
        assertFalse(grant.isHeld() || fixed.isHeld());
        locks.close();
        grant.close();
        assertThrows(LockMisuseException.class, () -> locks.get("k").lock());
        eventually("its threads end", () -> Thread.getAllStackTraces().keySet().stream()
                .noneMatch(thread -> thread.getName().startsWith("redis-lock-session-closing")));
    }

    /** What the user's settings say holds for all connections: the user, the database, the name. */
    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "LETTUCE_FACTORY")
    void aUserInAnotherDatabase(Client client) throws Exception {
        TestServer server = start();
        server.addUser("application");
        server.run("SELECT 2");
        Locks locks = closing(Locks.builder(connect(client, server.port, "application"))
                .service("test").lease(Duration.ofSeconds(1)).build());
        Grant grant = locks.get("lock:k").lock();
        FutureTask<Grant> waits = meanwhile(() -> locks.get("lock:k").lock());
        waiting(server, "lock:k", 1);
        server.run("CLIENT KILL TYPE normal SKIPME yes");
        server.run("SELECT 2");
        grant.check();
        grant.release();
        waits.get().release();
        assertTrue(((String) server.run("CLIENT LIST")).contains("name=orders"));
        assertEquals(List.of(), server.run("ACL LOG"));
    }
}
