package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Owners that come back: those of tasks, and those that the user has named. */
class OwnersTest extends ProxiedTest {
    /** Calls a wait off whose undo gets no answer, and lets the key be taken. */
    private void callOff(RedisLock lock) throws Exception {
        server.run("LOCK.ACQUIRE k other EX 60");
        var waits = new Other<>(() -> lock.waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("k").size() == 1);
        proxy.inject("keep", "ALL");
        waits.thread.interrupt();
        assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, waits::get).getCause());
        assertEquals(1, proxy.lost());
        server.run("LOCK.RELEASE k other");
    }

    /** Whatever comes late comes within the time of a release. */
    private void stands(Grant grant, String key) throws Exception {
        for (int n = 0; n < 25; n++) {
            Thread.sleep(100);
            assertEquals(grant.token(), server.info(key, "token"), "something late has ended it");
        }
        grant.check();
        assertTrue(grant.isHeld());
    }

    @Test
    void aTaskGoesOnInAnotherNameAfterACallWithoutAnAnswer() throws Exception {
        start(LONG);
        Task task = locks.task();
        String first = task.owner();
        Grant held = locks.lock("held").by(task).acquire();
        callOff(locks.lock("k").by(task));
        Grant grant = locks.lock("k").by(task).waiting(LONG).acquire();
        assertNotEquals(first, grant.owner());
        assertEquals(task.owner(), grant.owner());
        stands(grant, "k");
        Grant again = locks.lock("held").by(task).acquire();
        assertEquals(first, again.owner(), "what it holds it enters again in the old name");
        assertEquals(held.token(), again.token());
        assertEquals(2L, server.info("held", "holds"));
        held.release();
        again.release();
        grant.release();
        assertEquals(0L, server.run("EXISTS held k"));
    }

    @Test
    void aThreadDoesSoToo() throws Exception {
        start(LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        var work = new Other<>(() -> {
            ThreadLock held = locked(locks, "held");
            ThreadLock lock = locks.lock("k").asLock();
            assertThrows(InterruptedException.class, () -> lock.tryLock(LONG));
            assertTrue(lock.tryLock(LONG));
            assertNotEquals(server.info("held", "owner"), server.info("k", "owner"));
            for (int n = 0; n < 25; n++) {
                Thread.sleep(100);
                assertEquals(lock.token(), server.info("k", "token"));
            }
            lock.unlock();
            held.unlock();
            return true;
        });
        eventually("it waits", () -> server.waiters("k").size() == 1);
        proxy.inject("keep", "ALL");
        work.thread.interrupt();
        eventually("the undo is sent", () -> proxy.lost() == 1);
        server.run("LOCK.RELEASE k other");
        assertTrue(work.get());
        assertEquals(0L, server.run("EXISTS held k"));
    }

    @Test
    void inANameOfTheUsersAWaitIsUndoneOnce() throws Exception {
        start(LONG);
        int releases = server.calls("lock.release");
        RedisLock lock = locks.lock("k").owner("mine");
        callOff(lock);
        Grant grant = lock.waiting(LONG).acquire();
        assertEquals("mine", grant.owner());
        stands(grant, "k");
        assertEquals(releases + 2, server.calls("lock.release"), "that of the test, and the undo once");
        grant.release();
    }

    /** What it was sent meanwhile it carries out afterwards. */
    @Test
    void aServerThatHangsMeetsTheUndoBeforeTheNextCall() throws Exception {
        start(LONG);
        Locks direct = locks(server.port, LONG);
        direct.lock("warm2").acquire();
        for (RedisLock lock : List.of(direct.lock("k").by(direct.task()), direct.lock("k").owner("mine"))) {
            server.run("LOCK.ACQUIRE k other PX 1000");
            var waits = new Other<>(() -> lock.waiting(LONG).acquire());
            eventually("it waits", () -> server.waiters("k").size() == 1);
            server.order("pause");
            waits.thread.interrupt();
            assertThrows(ExecutionException.class, waits::get);
            var next = new Other<>(() -> lock.waiting(LONG).acquire());
            Thread.sleep(300); // the lease of the other ends, and the wait that was called off has the lock first
            server.order("resume");
            Grant grant = next.get();
            stands(grant, "k");
            grant.release();
            assertEquals(0L, server.run("EXISTS k"));
        }
    }

    /** The answer is lost, not the call: the server keeps it until the connection ends. */
    @Test
    void whatANamedCallMayHaveGotEndsWithItsLease() throws Exception {
        start(Duration.ofSeconds(4));
        proxy.inject("keep", "mine");
        assertThrows(LockUnavailableException.class, () -> locks.lock("k").owner("mine").acquire());
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
        try (Grant grant = locks.lock("k").owner("mine").acquire()) {
            grant.check();
        }
    }

    /** Its undo goes by the keeper, so the next call begins there. */
    @Test
    void aNamedCallBeginsOnTheKeeperAlsoWhereOthersWait() throws Exception {
        start(LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        var other = new Other<>(() -> locks.lock("k").waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("k").size() == 1);
        int acquires = server.calls("lock.acquire");
        var named = new Other<>(() -> locks.lock("k").owner("mine").waiting(LONG).acquire());
        eventually("both wait", () -> server.waiters("k").size() == 2);
        assertEquals(acquires + 2, server.calls("lock.acquire"));
        server.run("LOCK.RELEASE k other");
        other.get().release();
        named.get().release();
    }

    /** The release of a grant goes by the connection on which it came, what is asked for next by another one. */
    @Test
    void whatIsAskedForNextComesBehindTheRelease() throws Exception {
        start(LONG);
        Locks direct = locks(server.port, LONG);
        for (RedisLock lock : List.of(direct.lock("k").by(direct.task()), direct.lock("k").owner("mine"))) {
            for (int n = 0; n < 60; n++) {
                server.run("LOCK.ACQUIRE k other EX 60");
                CompletableFuture<Grant> waits = lock.waiting(LONG).acquireAsync();
                eventually("it waits", () -> server.waiters("k").size() == 1);
                server.run("LOCK.RELEASE k other");
                Grant first = waits.get();
                CompletableFuture<?> released = first.releaseAsync();
                Grant second = lock.waiting(LONG).acquire();
                released.get();
                assertNotEquals(first.token(), second.token());
                assertEquals(second.token(), server.info("k", "token"));
                second.release();
            }
        }
    }

    @Test
    void aReleaseWithoutAnAnswerMeetsNoLaterGrant() throws Exception {
        start(Duration.ofSeconds(6));
        Task task = locks.task();
        String first = task.owner();
        Grant grant = locks.lock("k").by(task).acquire();
        proxy.order("swallow");
        assertThrows(LockUnavailableException.class, grant::release);
        proxy.order("speak");
        assertNotEquals(first, task.owner());
        try (Grant next = locks.lock("k").by(task).waiting(LONG).acquire()) {
            assertNotEquals(grant.token(), next.token());
        }
    }

    @Test
    void grantsOfOneNameCountTheirHolds() throws Exception {
        start(LONG);
        RedisLock lock = locks.lock("k").owner("mine");
        Grant first = lock.acquire();
        Grant second = lock.waiting(LONG).acquire();
        assertEquals(first.token(), second.token());
        assertEquals(2L, server.info("k", "holds"));
        first.release();
        assertFalse(first.isHeld());
        assertTrue(second.isHeld());
        second.check();
        assertEquals(1L, server.info("k", "holds"));
        second.release();
        assertEquals(0L, server.run("EXISTS k"));

        Grant one = lock.acquire();
        Grant two = lock.acquire();
        AtomicInteger told = new AtomicInteger();
        one.onLost(why -> told.incrementAndGet());
        two.onLost(why -> told.incrementAndGet());
        server.run("DEL k");
        eventually("both are told", () -> told.get() == 2);
        try (Grant next = lock.acquire()) { // also while nobody has released the lost ones
            next.check();
            assertThrows(LockLostException.class, one::release);
            assertThrows(LockLostException.class, two::release);
            next.check();
        }
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void callsOfOneNameAtTheSameTimeCountTheirHolds() throws Exception {
        start(LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        RedisLock lock = locks.lock("k").owner("mine");
        var first = new Other<>(() -> lock.waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("k").size() == 1);
        long begun = System.nanoTime();
        assertTrue(lock.tryAcquire().isEmpty());
        assertThrows(LockBusyException.class, () -> lock.waiting(Duration.ofMillis(1200)).acquire());
        assertTrue(millisSince(begun) < 3500, millisSince(begun) + " ms");
        var second = new Other<>(() -> lock.waiting(LONG).acquire());
        CompletableFuture<Grant> third = lock.waiting(LONG).acquireAsync();
        third.cancel(true);
        server.run("LOCK.RELEASE k other");
        assertEquals(first.get().token(), second.get().token());
        assertEquals(2L, server.info("k", "holds"));
        first.get().release();
        second.get().check();
        second.get().release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void aHoldThatIsGivenUpIsTakenBackAndNoOther() throws Exception {
        start(LONG);
        RedisLock lock = locks.lock("k").owner("mine");
        Grant grant = lock.acquire();
        server.order("pause");
        try {
            assertThrows(LockUnavailableException.class, lock::acquire);
        } finally {
            server.order("resume");
        }
        eventually("one hold", () -> server.info("k", "holds").equals(1L));
        stands(grant, "k");
        grant.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void anInterruptEndsACallBehindAnotherOfItsName() throws Exception {
        start(LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        RedisLock lock = locks.lock("k").owner("mine");
        var first = new Other<>(() -> lock.waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("k").size() == 1);
        var second = new Other<>(() -> lock.waiting(LONG).acquire());
        Thread.sleep(100);
        second.thread.interrupt();
        assertInstanceOf(InterruptedException.class,
                assertThrows(ExecutionException.class, () -> second.get(2, TimeUnit.SECONDS)).getCause());
        server.run("LOCK.RELEASE k other");
        first.get().release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    /** It comes behind the undo. */
    @Test
    void aTaskThatHasCalledOffItsCallMayAskAgainAtOnce() throws Exception {
        start(LONG);
        server.run("LOCK.ACQUIRE k other EX 60");
        RedisLock lock = locks.lock("k").by(locks.task()).waiting(LONG);
        proxy.inject(Map.of("delay", 300), "ALL");
        CompletableFuture<Grant> first = lock.acquireAsync();
        eventually("it waits", () -> server.waiters("k").size() == 1);
        first.cancel(false);
        CompletableFuture<Grant> second = lock.acquireAsync();
        eventually("only the second waits", () -> server.calls("lock.release") == 1 && server.waiters("k").size() == 1);
        assertThrows(LockMisuseException.class, lock::acquire);
        server.run("LOCK.RELEASE k other");
        second.get().release();
        assertEquals(0L, server.run("EXISTS k"));
    }
}
