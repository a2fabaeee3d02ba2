package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Several locks at once, leaders, and work that is done once. */
class SeveralTest extends LocksTest {
    private static final Duration PATIENT = Duration.ofSeconds(60);

    @Test
    void severalAreTakenTogetherOrNotAtAll() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        try (Grants grants = locks.all("b", "a", "b").each(lock -> lock.lease(Duration.ofSeconds(5))).acquire()) {
            assertEquals(List.of("a", "b"), grants.all().stream().map(Grant::key).toList());
            assertEquals(grants.of("a").owner(), grants.of("b").owner());
            assertEquals(server.info("b", "token"), grants.of("b").token());
            assertTrue(grants.of("a").remaining().compareTo(Duration.ofSeconds(5)) <= 0);
            grants.check();
            assertTrue(grants.isHeld());
            grants.of("a").release();
            assertFalse(grants.isHeld());
            assertThrows(LockMisuseException.class, grants::check);
            assertThrows(LockMisuseException.class, () -> grants.of("c"));
        }
        assertEquals(0L, server.run("EXISTS a b"));

        Grant other = locks.lock("b").acquire();
        long begun = System.nanoTime();
        assertThrows(LockBusyException.class, () -> locks.all("a", "b").waiting(Duration.ofMillis(300)).acquire());
        assertTrue(millisSince(begun) >= 300 && millisSince(begun) < 3000);
        assertTrue(locks.all("c", "b", "a").tryAcquire().isEmpty());
        var async = assertThrows(ExecutionException.class, () -> locks.all("a", "b").acquireAsync().get());
        assertInstanceOf(LockBusyException.class, async.getCause());
        assertEquals(0L, server.run("EXISTS a c"), "none is left");
        other.release();
        try (Grants grants = locks.all("a", "b").acquireAsync().get()) {
            assertEquals(2, grants.all().size());
        }
        assertEquals(0L, server.run("EXISTS a b"));
    }

    @Test
    void aWaitForSeveralIsCalledOff() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Grant other = locks.lock("b").acquire();
        var interrupted = new Other<>(() -> locks.all("a", "b").waitingForEver().acquire());
        eventually("a waiter", () -> server.waiters("b").size() == 1);
        interrupted.thread.interrupt();
        assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, interrupted::get).getCause());
        assertEquals(0L, server.run("EXISTS a"));
        assertEquals(0, server.waiters("b").size());

        CompletableFuture<Grants> cancelled = locks.all("a", "b").waitingForEver().acquireAsync();
        eventually("a waiter", () -> server.waiters("b").size() == 1);
        cancelled.cancel(true);
        assertThrows(CancellationException.class, cancelled::get);
        eventually("nothing is left", () -> server.run("EXISTS a").equals(0L) && server.waiters("b").isEmpty());
        other.release();
        assertEquals(0L, server.run("EXISTS b"));
    }

    @Test
    void whoTakeTheSameInAnyOrderNeverWaitForEachOther() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        AtomicInteger inside = new AtomicInteger();
        List<Other<Boolean>> all = new ArrayList<>();
        for (String[] keys : List.of(new String[] {"a", "b", "c"}, new String[] {"c", "b", "a"}, new String[] {"b", "c", "a"})) {
            all.add(new Other<>(() -> {
                for (int n = 0; n < 20; n++) {
                    locks.all(keys).waiting(PATIENT).call(grants -> {
                        assertEquals(1, inside.incrementAndGet());
                        return inside.decrementAndGet();
                    });
                }
                return true;
            }));
        }
        for (Other<Boolean> one : all) {
            assertTrue(one.get());
        }
    }

    @Test
    void theLossOfOneEndsTheWorkUnderAll() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, SHORT);
        AtomicInteger told = new AtomicInteger();
        LockLostException loss = assertThrows(LockLostException.class, () -> locks.all("a", "b").call(grants -> {
            grants.onLost(lost -> told.incrementAndGet());
            server.run("DEL b");
            Thread.sleep(60_000);
            return true;
        }));
        assertTrue(loss.getMessage().startsWith("b"), loss.getMessage());
        assertInstanceOf(InterruptedException.class, loss.getSuppressed()[0]);
        assertEquals(0L, server.run("EXISTS a b"));
        eventually("told", () -> told.get() == 1);
        IllegalStateException bad = new IllegalStateException("bad");
        assertSame(bad, assertThrows(IllegalStateException.class, () -> locks.all("a", "b").call(grants -> {
            throw bad;
        })));
        assertEquals(0L, server.run("EXISTS a b"));
    }

    @Test
    void aLeaderWorksUntilItIsStopped() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, SHORT);
        AtomicInteger terms = new AtomicInteger();
        AtomicInteger leaders = new AtomicInteger();
        List<Other<Boolean>> all = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            all.add(new Other<>(() -> {
                locks.lock("k").lead(grant -> {
                    leaders.incrementAndGet();
                    terms.incrementAndGet();
                    try {
                        Thread.sleep(60_000);
                    } finally {
                        leaders.decrementAndGet();
                    }
                    return null;
                });
                return true;
            }));
        }
        eventually("one leads", () -> leaders.get() == 1);
        eventually("the others wait", () -> server.waiters("k").size() == 2);
        server.run("CLIENT KILL TYPE normal SKIPME yes"); // which loses nothing
        eventually("the others wait again", () -> server.waiters("k").size() == 2);
        assertEquals(1, terms.get());
        server.run("DEL k"); // and this does
        eventually("the next leads", () -> terms.get() == 2 && leaders.get() == 1);
        all.forEach(one -> one.thread.interrupt());
        for (Other<Boolean> one : all) {
            assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, one::get).getCause());
        }
        assertEquals(0L, server.run("EXISTS k"));
        IllegalStateException bad = new IllegalStateException("bad");
        assertSame(bad, assertThrows(IllegalStateException.class, () -> locks.lock("k").lead(grant -> {
            throw bad;
        })));
        AtomicInteger again = new AtomicInteger();
        var led = new Other<>(() -> {
            locks.lock("k").lead(grant -> again.incrementAndGet());
            return true;
        });
        eventually("a term that has ended is followed by the next", () -> again.get() > 2);
        locks.close();
        assertInstanceOf(LockMisuseException.class, assertThrows(ExecutionException.class, led::get).getCause());
    }

    @Test
    void workIsDoneOnceForAllWhoAsk() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Search<String, Exception> search = () -> Optional.ofNullable((String) server.run("GET value"));
        AtomicInteger done = new AtomicInteger();
        CountDownLatch working = new CountDownLatch(1);
        List<Other<String>> all = new ArrayList<>();
        for (int n = 0; n < 20; n++) {
            all.add(new Other<>(() -> locks.lock("k").waiting(PATIENT).once(search, grant -> {
                done.incrementAndGet();
                working.await();
                server.run("SET value made");
                return "made";
            })));
        }
        eventually("the others wait", () -> server.waiters("k").size() == 19);
        working.countDown();
        for (Other<String> one : all) {
            assertEquals("made", one.get());
        }
        assertEquals(1, done.get());
        eventually("free", () -> server.run("EXISTS k").equals(0L));

        locks.lock("other").acquire();
        assertThrows(LockBusyException.class, () -> locks.lock("other").once(() -> Optional.empty(), grant -> 1));
        assertThrows(LockBusyException.class, () -> locks.lock("other").waiting(Duration.ofMillis(200))
                .once(() -> Optional.empty(), grant -> 1));
        LockBusyException own = new LockBusyException("the work's own", null);
        assertSame(own, assertThrows(LockBusyException.class, () -> locks.lock("k").waiting(PATIENT)
                .once(() -> Optional.empty(), grant -> {
                    throw own;
                })));
        assertThrows(LockMisuseException.class, () -> locks.shared("k").once(() -> Optional.empty(), grant -> 1));
    }
}
