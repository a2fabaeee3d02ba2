package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static io.github.redislock.TestServer.eventually;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

class WaitingTest extends LocksTest {
    @Test
    void waitsInOneCallOnAConnectionOfItsOwn() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        List<Other<Boolean>> waiting = new ArrayList<>();
        for (int i = 1; i <= 4; i++) { // more than a pool has
            waiting.add(new Other<>(() -> locks.lock("k").asLock().tryLock(20, TimeUnit.SECONDS)));
            int waiters = i;
            eventually("waiters", () -> server.waiters("k").size() == waiters);
        }
        var first = server.waiters("k");
        long left = (Long) first.get(0).get("left-ms");
        assertTrue(left > 15_000 && left <= 20_000, "left-ms " + left);
        int acquires = server.calls("lock.acquire");
        Thread.sleep(1000 * 5 / 2); // longer than the read timeout of other calls
        var then = server.waiters("k");
        for (int i = 0; i < 4; i++) {
            assertEquals(first.get(i).get("client-id"), then.get(i).get("client-id"), "it has left the queue");
        }
        try (Grant elsewhere = locks.lock("elsewhere").acquire()) {
            assertEquals(1L, server.info("elsewhere", "holds"));
        }
        server.run("LOCK.RELEASE k other");
        assertTrue(waiting.get(0).get());
        assertEquals(acquires + 1, server.calls("lock.acquire"), "it asked again");
    }

    @Test
    void aWaitThatIsOverSaysSo() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        assertFalse(locks.lock("k").asLock().tryLock());
        assertEquals(2, server.calls("lock.acquire"));
        long begun = System.nanoTime();
        assertFalse(locks.lock("k").asLock().tryLock(500, TimeUnit.MILLISECONDS));
        long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
        assertTrue(waited >= 490 && waited < 3000, waited + " ms");
        assertEquals(4, server.calls("lock.acquire"), "not one wait");
    }

    @Test
    void lockWaitsForEver() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        var waiting = new Other<>(() -> locked(locks, "k").token());
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        assertEquals(-1L, server.waiters("k").get(0).get("left-ms"));
        Object id = server.waiters("k").get(0).get("client-id");
        Thread.sleep(1000 * 3 / 2);
        assertEquals(id, server.waiters("k").get(0).get("client-id"), "it has left the queue");
        server.run("DEL k");
        Object token = waiting.get(); // which comes some ms after the DEL
        assertEquals(server.info("k", "token"), token);
    }

    @Test
    void anInterruptedWaitLeavesTheQueueAtOnce() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        var first = new Other<>(() -> {
            locks.lock("k").asLock().lockInterruptibly();
            return true;
        });
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        var second = new Other<>(() -> locks.lock("k").asLock().tryLock(20, TimeUnit.SECONDS));
        eventually("two waiters", () -> server.waiters("k").size() == 2);
        Object behind = server.waiters("k").get(1).get("owner");

        first.thread.interrupt();
        assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, first::get).getCause());
        var left = server.waiters("k");
        assertEquals(1, left.size());
        assertEquals(behind, left.get(0).get("owner"));
        server.run("LOCK.RELEASE k other");
        assertTrue(second.get());
        assertEquals(behind, server.info("k", "owner"));
    }

    @Test
    void lockIsNotInterruptedButRemembersIt() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        var waiting = new Other<>(() -> {
            locked(locks, "k");
            return Thread.interrupted();
        });
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        waiting.thread.interrupt();
        server.run("LOCK.RELEASE k other");
        assertTrue(waiting.get());
        assertEquals(1L, server.info("k", "holds"));
    }

    /** The grant and the interrupt meet: whoever is first, nothing stays behind. */
    @Test
    void aGrantThatMeetsAnInterruptIsGivenBack() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        for (int run = 0; run < 60; run++) {
            String key = "k" + run;
            server.run("LOCK.ACQUIRE " + key + " other EX 60");
            var waiting = new Other<>(() -> {
                if (locks.lock(key).asLock().tryLock(20, TimeUnit.SECONDS)) {
                    locks.lock(key).asLock().unlock();
                }
                return true;
            });
            eventually("a waiter", () -> server.waiters(key).size() == 1);
            long pause = run % 6 * 100_000L;
            var interrupting = new Other<>(() -> {
                LockSupport.parkNanos(pause);
                waiting.thread.interrupt();
                return true;
            });
            server.run("LOCK.RELEASE " + key + " other");
            interrupting.get();
            waiting.thread.join();
            assertEquals(0L, server.run("EXISTS " + key), "a hold stayed behind in run " + run);
            assertEquals(0, server.waiters(key).size(), "a wait stayed behind in run " + run);
        }
    }

    @Test
    void theLeaseCountsFromTheSendingOfTheCall() throws Exception {
        TestServer server = server();
        TestServer slow = proxy(server);
        Locks locks = locks(slow.port, LONG);
        locked(locks, "connected").unlock();
        slow.inject(Map.of("delay", 400), "LOCK.ACQUIRE");
        long remaining = locked(locks, "k").remaining().toMillis();
        assertTrue(remaining <= LONG.toMillis() - 390 && remaining > LONG.toMillis() - 5000, remaining + " ms");
    }

    @Test
    void aWaitWhoseAnswerIsLostHasTheLock() throws Exception {
        TestServer server = server();
        TestServer cutting = proxy(server);
        Locks locks = locks(cutting.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        cutting.inject("cut", "BLOCK");
        var waiting = new Other<>(() -> {
            ThreadLock lock = locked(locks, "k");
            Object holds = server.info("k", "holds");
            lock.unlock();
            return holds;
        });
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        server.run("LOCK.RELEASE k other");
        assertEquals(1L, waiting.get());
        assertEquals(1, cutting.lost());
        assertNull(server.info("k", "holds"));
    }

    /** The old helper spun, and left 1,718 connections open. */
    @Test
    void anInterruptFlagIsObeyedOnEntryOrKept() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        locks.lock("warm").acquire().release();
        int before = Integer.parseInt(server.stat("total_connections_received"));
        ThreadLock lock = locks.lock("k").asLock();
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, lock::lockInterruptibly);
        assertFalse(Thread.currentThread().isInterrupted());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> lock.tryLock(1, TimeUnit.SECONDS));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> locks.lock("k").acquire());
        assertEquals(0L, server.run("EXISTS k"));

        Thread.currentThread().interrupt();
        lock.lock();
        assertTrue(Thread.currentThread().isInterrupted());
        lock.check();
        lock.unlock();
        assertTrue(Thread.interrupted());

        server.run("LOCK.ACQUIRE k other EX 60");
        var waiting = new Other<>(() -> {
            Thread.currentThread().interrupt();
            lock.lock();
            lock.unlock();
            return Thread.interrupted();
        });
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        long cpu = java.lang.management.ManagementFactory.getThreadMXBean().getThreadCpuTime(waiting.thread.getId());
        for (int n = 0; n < 5; n++) {
            waiting.thread.interrupt();
            Thread.sleep(100);
        }
        cpu = java.lang.management.ManagementFactory.getThreadMXBean().getThreadCpuTime(waiting.thread.getId()) - cpu;
        assertTrue(cpu < 100_000_000, cpu + " ns of CPU while it waits");
        server.run("LOCK.RELEASE k other");
        assertTrue(waiting.get());
        int connections = Integer.parseInt(server.stat("total_connections_received")) - before;
        assertTrue(connections <= 2, connections + " connections");
    }

    @Test
    void aWaitWhoseConnectionBreaksLinesUpAgainWithPauses() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        var waiting = new Other<>(() -> locked(locks, "k").token());
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        int before = Integer.parseInt(server.stat("total_connections_received"));
        long begun = System.nanoTime();
        while (millisSince(begun) < 1500) {
            server.run("CLIENT KILL TYPE normal SKIPME yes");
        }
        int opened = Integer.parseInt(server.stat("total_connections_received")) - before;
        assertTrue(opened < 40, opened + " connections");
        eventually("it is back", () -> server.waiters("k").size() == 1);
        server.run("LOCK.RELEASE k other");
        assertEquals(waiting.get(), server.info("k", "token"));
    }

    @Test
    void connectionsOfWaitsAreReused() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        int before = 0;
        for (int run = 0; run < 60; run++) {
            ThreadLock lock = locked(locks, "k");
            var next = new Other<>(() -> {
                locked(locks, "k").unlock();
                return true;
            });
            eventually("a waiter", () -> server.waiters("k").size() == 1);
            lock.unlock();
            next.get();
            if (run == 5) {
                before = Integer.parseInt(server.stat("total_connections_received"));
            }
        }
        assertEquals(before, Integer.parseInt(server.stat("total_connections_received")));
    }

    /** A factory of the user's, on a client that reconnects by itself: nothing is repeated behind our back. */
    @Test
    void connectionsOfAFactoryAreEndedWhereTheyBreak() throws Exception {
        TestServer server = server();
        Client.Connected connected = Client.LETTUCE_FACTORY.connect(Client.Topology.SINGLE, server.port, null);
        closing(connected.application());
        Locks locks = closing(Locks.builder(connected.server()).replyTimeout(Duration.ofSeconds(10)).build());
        Grant grant = locks.lock("k").acquire();
        var waiting = new Other<>(() -> locked(locks, "k").token());
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        for (int n = 0; n < 3; n++) {
            server.run("CLIENT KILL TYPE normal SKIPME yes");
            grant.check();
            eventually("one waiter", () -> server.waiters("k").size() == 1);
        }
        Thread.sleep(500); // in which Lettuce would have reconnected
        assertEquals(1, server.waiters("k").size());
        assertTrue(Integer.parseInt(server.stat("connected_clients")) <= 4, "connections are left over");
        grant.release();
        assertEquals(waiting.get(), server.info("k", "token"));
    }

    @Test
    void aFactoryThatHangsHoldsUpNobodyForLong() throws Exception {
        TestServer server = server();
        server.order("pause");
        Client.Connected connected = Client.LETTUCE_FACTORY.connect(Client.Topology.SINGLE, server.port, null);
        closing(connected.application());
        Locks locks = closing(Locks.of(connected.server(), "tests"));
        try {
            for (Runnable call : List.<Runnable>of(() -> locks.holders("k"), locks.lock("k").asLock()::tryLock)) {
                long begun = System.nanoTime();
                assertThrows(LockUnavailableException.class, call::run);
                assertTrue(millisSince(begun) < 3000, millisSince(begun) + " ms");
            }
        } finally {
            server.order("resume");
        }
        locks.lock("k").waiting(LONG).acquire().release();
    }

    /** Its keeper ends between the look at it and the wait: nothing else would tell that the server is silent. */
    @Test
    void aWaitHasAKeeper() throws Exception {
        TestServer server = server();
        long second = TimeUnit.SECONDS.toNanos(1);
        Core core = new Core(lockServer(server.port), new Settings("tests", LONG, LONG, second, second, second, Thread::new,
                new LockObserver() { }));
        closing(core::close);
        Wait wait = new Wait(core, "k", second).open().get();
        server.run("LOCK.ACQUIRE k other EX 60");
        String keeper = ((String) server.run("CLIENT LIST")).lines().filter(line -> line.contains("name=lock-keeper"))
                .findFirst().orElseThrow();
        server.run("CLIENT KILL ID " + keeper.substring(3, keeper.indexOf(' ')));
        eventually("the keeper has ended", () -> core.keeperNow("k").openLine() == null);
        wait.await(Words.of("LOCK.ACQUIRE", "k", "mine", "BLOCK", 0), Caller.NONE);
        eventually("there is another one", () -> core.keeperNow("k").openLine() != null);
    }
}
