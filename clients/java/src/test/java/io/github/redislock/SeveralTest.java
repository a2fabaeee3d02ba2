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
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
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
    void anErrorOfTheTermsLeavesNothing() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        SeveralLocks all = locks.all("a", "b").each(lock -> {
            assertFalse(lock.key().equals("b"), "an Error");
            return lock;
        });
        assertThrows(AssertionError.class, all::acquire);
        assertEquals(0L, server.run("EXISTS a"));
        assertInstanceOf(AssertionError.class,
                assertThrows(ExecutionException.class, () -> all.acquireAsync().get(5, TimeUnit.SECONDS)).getCause());
        assertEquals(0L, server.run("EXISTS a"));
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

    /** An error of the work, also where it is one of another lock, ends the lead; a loss of the leader's own does not. */
    @Test
    void anErrorOfTheLeadersWorkIsTheCallers() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        AtomicInteger terms = new AtomicInteger();
        RedisLock lock = locks.lock("k");
        var lost = assertThrows(LockLostException.class, () -> lock.lead(grant -> {
            terms.incrementAndGet();
            try (Grant other = locks.lock("other").acquire()) {
                server.run("DEL other");
                eventually("it is told", () -> !other.isHeld());
                other.check();
            }
            return null;
        }));
        assertTrue(lost.getMessage().startsWith("other"), lost.getMessage());
        LockUnavailableException own = new LockUnavailableException("the work's own", null);
        assertSame(own, assertThrows(LockUnavailableException.class, () -> lock.lead(grant -> {
            terms.incrementAndGet();
            throw own;
        })));
        assertEquals(2, terms.get());
        assertEquals(0L, server.run("EXISTS k other"));

        terms.set(0);
        IllegalStateException stop = new IllegalStateException("stop");
        assertSame(stop, assertThrows(IllegalStateException.class, () -> lock.lead(grant -> {
            if (terms.incrementAndGet() > 4) {
                throw stop;
            }
            server.run("DEL k");
            switch (terms.get()) {
                case 1 -> {
                    while (grant.isHeld()) {
                        Thread.onSpinWait();
                    }
                    grant.check();
                }
                case 2 -> grant.release(); // which finds it lost
                case 3 -> {
                    try {
                        Thread.sleep(60_000);
                    } finally {
                        assertThrows(LockLostException.class, grant::release);
                    }
                }
                default -> Thread.sleep(60_000);
            }
            return null;
        })));
        assertEquals(5, terms.get());
        assertEquals(0L, server.run("EXISTS k"));
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

    /** Readers stay, for another end: who found nothing behind them stands in line. */
    @Test
    void workThatIsDoneOnceAsksReadersNoMoreThanOnce() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Grant reader = locks.shared("k").acquire();
        AtomicInteger looks = new AtomicInteger();
        var asking = new Other<>(() -> locks.lock("k").waiting(PATIENT).once(() -> {
            looks.incrementAndGet();
            return Optional.empty();
        }, grant -> "made"));
        eventually("it stands in line", () -> server.waiters("k").size() == 1 || looks.get() > 50);
        assertTrue(looks.get() <= 3, looks + " looks");
        reader.release();
        assertEquals("made", asking.get());
        locks.shared("k").acquire();
        assertThrows(LockBusyException.class, () -> locks.lock("k").waiting(Duration.ofMillis(300))
                .once(() -> Optional.empty(), grant -> 1));
    }

    /** The second wait has what the first has left. */
    @Test
    void workThatIsDoneOnceWaitsNoLongerThanItsLock() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        server.run("LOCK.ACQUIRE k other EX 60");
        long begun = System.nanoTime();
        var asking = new Other<>(() -> locks.lock("k").waiting(Duration.ofSeconds(3)).once(() -> Optional.empty(), grant -> 1));
        eventually("it waits", () -> server.waiters("k").size() == 1);
        Thread.sleep(2000);
        server.run("LOCK.RELEASE k other");
        server.run("LOCK.ACQUIRE k reader SHARED EX 60");
        assertInstanceOf(LockBusyException.class, assertThrows(ExecutionException.class, asking::get).getCause());
        assertTrue(millisSince(begun) < 4000, millisSince(begun) + " ms");
    }

    @Test
    void workThatIsDoneOnceWaitsForItsServer() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        locks.lock("k").acquire().release();
        server.order("kill");
        var asking = new Other<>(() -> locks.lock("k").waiting(PATIENT).once(() -> Optional.empty(), grant -> "made"));
        assertThrows(TimeoutException.class, () -> asking.get(1500, TimeUnit.MILLISECONDS));
        server.order("restart");
        assertEquals("made", asking.get());
    }

    @Test
    void workDoesNotBeginWhenOneWasLostWhileTheOthersCame() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        server.run("LOCK.ACQUIRE k2 other EX 60");
        AtomicBoolean hasBegun = new AtomicBoolean();
        var asking = new Other<>(() -> locks.all("k1", "k2").waiting(PATIENT).call(grants -> {
            hasBegun.set(true);
            return null;
        }));
        eventually("it waits", () -> server.waiters("k2").size() == 1);
        int held = locks.held();
        server.run("DEL k1");
        eventually("it is lost", () -> locks.held() < held);
        server.run("LOCK.RELEASE k2 other");
        assertInstanceOf(LockLostException.class, assertThrows(ExecutionException.class, asking::get).getCause());
        assertFalse(hasBegun.get());
        assertEquals(0L, server.run("EXISTS k1 k2"));
    }
}
