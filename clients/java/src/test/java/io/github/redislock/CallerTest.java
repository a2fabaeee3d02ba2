package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/**
 * Threads that read the answer to their wait themselves, with Jedis: those who wait for a lock that others of the process
 * wait for, on connections that have been used.
 */
class CallerTest extends LocksTest {
    private TestServer server;
    private Locks locks;

    /** Leaves so many idle connections, and one thread that waits for the lock k before all others. */
    private Other<Boolean> prepare(int connections) throws Exception {
        server = server();
        locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE warm other EX 60");
        List<Other<Boolean>> all = new ArrayList<>();
        for (int n = 0; n <= connections; n++) {
            all.add(new Other<>(() -> lockAndUnlock("warm")));
        }
        eventually("connections", () -> server.waiters("warm").size() == connections + 1);
        server.run("LOCK.RELEASE warm other");
        for (Other<Boolean> one : all) {
            one.get();
        }
        server.run("LOCK.ACQUIRE k other EX 60");
        return waiting(1, () -> lockAndUnlock("k"));
    }

    private boolean lockAndUnlock(String key) {
        locked(locks, key).unlock();
        return true;
    }

    /** Begins it in a thread, which is the last of so many waiters from then on. */
    private <T> Other<T> waiting(int place, Callable<T> work) throws Exception {
        Other<T> waiting = new Other<>(work);
        eventually("waiters", () -> server.waiters("k").size() == place);
        return waiting;
    }

    private int opened() {
        return Integer.parseInt(server.stat("total_connections_received"));
    }

    private static long readers() {
        return reading("redis-lock-reader");
    }

    /** How many threads read, of those whose names begin so. */
    private static long reading(String name) {
        return Thread.getAllStackTraces().entrySet().stream()
                .filter(one -> one.getKey().getName().startsWith(name))
                .filter(one -> List.of(one.getValue()).stream().anyMatch(frame -> frame.getMethodName().equals("readWhile")))
                .count();
    }

    @Test
    void noThreadReadsForThem() throws Exception {
        Assumptions.assumeTrue(client == Client.JEDIS);
        eventually("no thread of other tests", () -> readers() == 0);
        Other<Boolean> first = prepare(5);
        long readers;
        int rounds = 0;
        do { // a connection that was idle for long is read by a thread until the next answer
            List<Other<Boolean>> all = new ArrayList<>(List.of(first));
            for (int n = 2; n <= 6; n++) {
                all.add(waiting(n, () -> lockAndUnlock("k")));
            }
            readers = readers();
            server.run("LOCK.RELEASE k other");
            for (Other<Boolean> one : all) {
                one.get();
            }
            assertEquals(0L, server.run("EXISTS k"));
            server.run("LOCK.ACQUIRE k other EX 60");
            first = waiting(1, () -> lockAndUnlock("k"));
        } while (readers != 2 && ++rounds < 50);
        assertEquals(2, readers, "that of the keeper, and of the first to wait");
    }

    @Test
    void anInterruptEndsTheWaitAtOnce() throws Exception {
        prepare(2);
        int before = opened();
        var waiting = waiting(2, () -> {
            locks.lock("k").asLock().lockInterruptibly();
            return true;
        });
        long begun = System.nanoTime();
        waiting.thread.interrupt();
        assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, waiting::get).getCause());
        assertTrue(millisSince(begun) < 900, "it took as long as a reply may: " + millisSince(begun) + " ms");
        assertEquals(1, server.waiters("k").size());
        waiting(2, () -> lockAndUnlock("k"));
        assertEquals(before, opened(), "its connection was not used again");
    }

    @Test
    void anInterruptIsRememberedWhereItEndsNothing() throws Exception {
        prepare(2);
        var waiting = waiting(2, () -> lockAndUnlock("k") && Thread.interrupted());
        waiting.thread.interrupt();
        Thread.sleep(100);
        assertEquals(2, server.waiters("k").size());
        server.run("LOCK.RELEASE k other");
        assertTrue(waiting.get());
    }

    /** The grant and the interrupt meet: whoever is first, nothing stays behind. */
    @Test
    void aGrantThatMeetsAnInterruptIsGivenBack() throws Exception {
        Other<Boolean> first = prepare(2);
        for (int run = 0; run < 60; run++) {
            var waiting = waiting(2, () -> {
                try {
                    locks.lock("k").waiting(LONG).acquire().release();
                } catch (InterruptedException e) {
                    assertTrue(!Thread.currentThread().isInterrupted(), "told twice");
                }
                return true;
            });
            long pause = run % 6 * 100_000L;
            var interrupting = new Other<>(() -> {
                LockSupport.parkNanos(pause);
                waiting.thread.interrupt();
                return true;
            });
            server.run("LOCK.RELEASE k other");
            interrupting.get();
            waiting.get();
            first.get();
            assertEquals(0L, server.run("EXISTS k"), "a hold stayed behind in run " + run);
            assertEquals(0, server.waiters("k").size(), "a wait stayed behind in run " + run);
            server.run("LOCK.ACQUIRE k other EX 60");
            first = waiting(1, () -> lockAndUnlock("k"));
        }
    }

    @Test
    void aBrokenConnectionLinesUpAgain() throws Exception {
        prepare(2);
        var waiting = waiting(2, () -> lockAndUnlock("k"));
        server.run("CLIENT KILL ID " + server.waiters("k").get(1).get("client-id"));
        eventually("it is back", () -> server.waiters("k").size() == 2);
        server.run("LOCK.RELEASE k other");
        assertTrue(waiting.get());
    }

    @Test
    void itsTimeIsKept() throws Exception {
        prepare(2);
        long begun = System.nanoTime();
        assertThrows(LockBusyException.class, () -> locks.lock("k").waiting(Duration.ofMillis(300)).acquire());
        assertTrue(millisSince(begun) >= 290 && millisSince(begun) < 900, millisSince(begun) + " ms");
        assertEquals(1, server.waiters("k").size());
    }

    @Test
    void aHungServerEndsItInTime() throws Exception {
        prepare(2);
        var waiting = waiting(2, () -> locks.lock("k").asLock().tryLock(1, TimeUnit.SECONDS));
        server.order("pause");
        try {
            long begun = System.nanoTime();
            Throwable told = assertThrows(ExecutionException.class, waiting::get).getCause();
            assertInstanceOf(LockUnavailableException.class, told);
            assertTrue(millisSince(begun) < 4000, millisSince(begun) + " ms"); // a second, and two answers' time
        } finally {
            server.order("resume");
        }
    }

    @Test
    void closingEndsIt() throws Exception {
        Other<Boolean> first = prepare(2);
        var waiting = waiting(2, () -> lockAndUnlock("k"));
        locks.close();
        for (Other<Boolean> one : List.of(first, waiting)) {
            assertInstanceOf(LockMisuseException.class, assertThrows(ExecutionException.class, one::get).getCause());
        }
        eventually("no waiter", () -> server.waiters("k").isEmpty());
    }

    @Test
    void aReleaseWhoseAnswerIsLostIsRepeated() throws Exception {
        TestServer direct = server();
        TestServer cutting = proxy(direct);
        server = direct;
        locks = locks(cutting.port, LONG);
        direct.run("LOCK.ACQUIRE k other EX 60");
        var waiting = waiting(1, () -> {
            ThreadLock lock = locked(locks, "k");
            cutting.inject("cut", "LOCK.RELEASE"); // which takes the connection of the wait
            lock.unlock();
            return true;
        });
        direct.run("LOCK.RELEASE k other");
        assertTrue(waiting.get());
        assertEquals(1, cutting.lost());
        assertEquals(0L, direct.run("EXISTS k"));
    }

    /** Of a server that hangs, and of an answer that is lost on the connection of the wait alone. */
    @Test
    void aReleaseKeepsItsLimit() throws Exception {
        TestServer direct = server();
        TestServer losing = proxy(direct);
        server = direct;
        locks = closing(builder(Client.Topology.SINGLE, losing.port).lease(LONG).releaseTimeout(Duration.ofMillis(600)).build());
        Callable<Long> takeAndRelease = () -> {
            Grant grant = locks.lock("k").waiting(LONG).acquire();
            losing.inject("keep", "LOCK.RELEASE");
            long begun = System.nanoTime();
            grant.release();
            return millisSince(begun);
        };
        direct.run("LOCK.ACQUIRE k other EX 60");
        var losesAnswer = waiting(1, takeAndRelease);
        direct.run("LOCK.RELEASE k other");
        assertTrue(losesAnswer.get() < 600);
        assertEquals(0L, direct.run("EXISTS k"));
        direct.run("LOCK.ACQUIRE k other EX 60");
        var hangs = waiting(1, () -> {
            Grant grant = locks.lock("k").waiting(LONG).acquire();
            direct.order("pause");
            long begun = System.nanoTime();
            assertThrows(LockUnavailableException.class, grant::release);
            return millisSince(begun);
        });
        direct.run("LOCK.RELEASE k other");
        try {
            long took = hangs.get();
            assertTrue(took < 900, took + " ms");
        } finally {
            direct.order("resume");
        }
    }

    /** What depends on a release may wait: it runs in no thread that has to read. */
    @Test
    void whatDependsOnAReleaseMayTakeALock() throws Exception {
        server = server();
        locks = locks(server.port, LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        server.run("LOCK.ACQUIRE m other EX 60");
        var taken = locks.lock("k").waiting(LONG).acquireAsync().thenCompose(grant -> grant.releaseAsync()
                .thenRun(() -> locked(locks, "m").unlock()));
        eventually("it waits", () -> server.waiters("k").size() == 1);
        server.run("LOCK.RELEASE k other");
        eventually("it waits for the other", () -> server.waiters("m").size() == 1);
        server.run("LOCK.RELEASE m other");
        taken.get(5, TimeUnit.SECONDS);
    }

    /** A pool of threads that fork and join makes up for one that waits. */
    @Test
    void aPoolThatForksAndJoinsGoesOn() throws Exception {
        prepare(2);
        var pool = new java.util.concurrent.ForkJoinPool(1);
        try {
            var waits = pool.submit(() -> lockAndUnlock("k"));
            eventually("it waits", () -> server.waiters("k").size() == 2);
            assertTrue(pool.submit(() -> true).get(2, TimeUnit.SECONDS));
            server.run("LOCK.RELEASE k other");
            assertTrue(waits.get(5, TimeUnit.SECONDS));
        } finally {
            pool.shutdown();
        }
    }

    @Test
    void theEndOfAnIdleConnectionIsNoticed() throws Exception {
        Assumptions.assumeTrue(client == Client.JEDIS);
        eventually("no thread of other tests", () -> reading("") == 0);
        prepare(2);
        eventually("they are watched", () -> reading("") == 4); // the first to wait may read by itself
        for (String line : ((String) server.run("CLIENT LIST")).split("\n")) {
            if (line.contains("name=lock-wait") && !line.contains("flags=b")) {
                server.run("CLIENT KILL ID " + line.substring(line.indexOf("id=") + 3, line.indexOf(' ')));
            }
        }
        eventually("noticed", () -> reading("") == 2);
        assertEquals("other", locks.holders("k").get(0).owner(), "it asks on such a connection, once");
    }

    /** An interrupt would close the socket that a virtual thread reads. */
    @Test
    void virtualThreadsAreInterruptedAsWell() throws Exception {
        Callable<Thread> starts;
        prepare(2);
        int before = opened();
        var told = new java.util.concurrent.CompletableFuture<Throwable>();
        Runnable work = () -> told.complete(assertThrows(Throwable.class, () -> locks.lock("k").asLock().lockInterruptibly()));
        try {
            var start = Thread.class.getMethod("startVirtualThread", Runnable.class);
            starts = () -> (Thread) start.invoke(null, work);
        } catch (NoSuchMethodException e) {
            Assumptions.abort("of Java 21");
            return;
        }
        Thread thread = starts.call();
        eventually("waiters", () -> server.waiters("k").size() == 2);
        thread.interrupt();
        assertInstanceOf(InterruptedException.class, told.get(5, TimeUnit.SECONDS));
        assertEquals(1, server.waiters("k").size());
        waiting(2, () -> lockAndUnlock("k"));
        assertEquals(before, opened(), "its connection was not used again");
    }
}
