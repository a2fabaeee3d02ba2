package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Taking, taking again, giving back. */
class HoldingTest extends LocksTest {
    @Test
    void takesAndGivesBack() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        ThreadLock lock = locks.lock("k").asLock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertFalse(lock.isLocked());
        lock.lock();
        assertEquals(server.info("k", "token"), lock.token());
        assertTrue(lock.token() > 1L << 50);
        assertTrue(lock.isLocked() && lock.isHeldByCurrentThread());
        assertFalse(new Other<>(lock::tryLock).get());
        assertFalse(new Other<>(lock::isHeldByCurrentThread).get());
        assertThrows(ExecutionException.class, new Other<>(() -> {
            lock.unlock(); // it is another thread's
            return true;
        })::get);
        lock.unlock();
        assertNull(server.info("k", "token"));
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, lock::check);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    @Test
    void aGrantIsAHandleForAnyThread() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Grant grant = locks.lock("k").acquire();
        assertEquals(server.info("k", "owner"), grant.owner());
        assertEquals(30_000L, ((List<?>) ((List<?>) server.run("LOCK.HOLDERS k")).get(0)).get(17), "kept");
        assertTrue(grant.isHeld() && grant.remaining().compareTo(LONG) <= 0);
        assertTrue(locks.lock("k").tryAcquire().isEmpty(), "each acquire is an owner of its own");
        new Other<>(() -> {
            grant.check();
            grant.release();
            return true;
        }).get();
        assertFalse(grant.isHeld());
        assertEquals(Duration.ZERO, grant.remaining());
        grant.close();
        assertThrows(LockMisuseException.class, grant::release);
        assertThrows(LockMisuseException.class, grant::check);
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void eachThreadIsAnOwnerOfItsOwn() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Pattern form = Pattern.compile("tests:[^:]+:" + ProcessHandle.current().pid()
                + ":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+");
        Set<String> owners = new HashSet<>();
        for (String key : List.of("a", "b", "c")) {
            new Other<>(() -> locked(locks, key).token()).get();
            String owner = (String) server.info(key, "owner");
            assertTrue(form.matcher(owner).matches(), owner);
            owners.add(owner);
        }
        assertEquals(3, owners.size());
    }

    @Test
    void nestedUseEntersAgainAndUnlocksInAnyOrder() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        ThreadLock outer = locked(locks, "k");
        ThreadLock inner = locked(locks, "k");
        ThreadLock other = locked(locks, "other");
        assertTrue(inner.tryLock());
        assertEquals(3L, server.info("k", "holds"));
        assertEquals(3, inner.getHoldCount());
        assertEquals(outer.token(), inner.token());
        outer.unlock();
        other.unlock();
        assertEquals(2L, server.info("k", "holds"));
        inner.check();
        inner.unlock();
        assertEquals(1L, server.info("k", "holds"));
        outer.unlock();
        assertNull(server.info("k", "holds"));
        assertEquals(0, outer.getHoldCount());
    }

    @Test
    void aTaskEntersAgainFromAnyThread() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Task task = locks.task();
        Grant first = locks.lock("k").by(task).acquire();
        Grant second = new Other<>(() -> locks.lock("k").by(task).acquire()).get();
        assertEquals(first.token(), second.token());
        assertEquals(2L, server.info("k", "holds"));
        first.release();
        assertTrue(second.isHeld());
        second.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void aCircleOfWaitsIsTold() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        ThreadLock a = locked(locks, "a");
        var other = new Other<>(() -> {
            ThreadLock b = locked(locks, "b");
            locked(locks, "a").unlock();
            b.unlock();
            return true;
        });
        eventually("a waiter", () -> server.waiters("a").size() == 1);
        assertThrows(LockDeadlockException.class, () -> locked(locks, "b"));
        a.unlock();
        assertTrue(other.get());
    }

    @Test
    void readersShareAndAWriterIsAlone() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        ThreadReadWriteLock lock = locks.readWriteLock("k");
        lock.readLock().lock();
        assertTrue(new Other<>(() -> {
            boolean reads = lock.readLock().tryLock();
            lock.readLock().unlock();
            return reads;
        }).get());
        assertFalse(new Other<>(lock.writeLock()::tryLock).get());
        lock.writeLock().lock(); // the only reader becomes the writer
        assertEquals(1, lock.writeLock().getHoldCount());
        assertFalse(new Other<>(lock.readLock()::tryLock).get());
        lock.writeLock().unlock(); // and a reader again
        assertThrows(IllegalMonitorStateException.class, lock.writeLock()::unlock);
        var other = new Other<>(() -> {
            lock.readLock().lock();
            return assertThrows(LockNotAloneException.class, lock.writeLock()::lock);
        });
        other.get();
        lock.readLock().unlock();
        assertEquals(1L, server.info("k", "holders"));
    }

    @Test
    void aSemaphoreHasSoManyPermits() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        RedisLock permit = locks.permit("k", 2);
        Task task = locks.task();
        Grant first = permit.by(task).acquire();
        Grant second = permit.by(task).acquire();
        assertTrue(permit.tryAcquire().isEmpty());
        assertEquals(2, locks.holders("k").size());
        assertEquals(first.owner(), locks.holders("k").get(0).owner());
        first.release();
        permit.acquire().release();

        assertThrows(LockMisuseException.class, () -> permit.owner("mine"));
        second.detach(LONG);
        Grant adopted = permit.adopt(second.owner(), second.token());
        Grant again = permit.adopt(second.owner(), second.token());
        adopted.release();
        again.check();
        again.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void atMostAndFixedLeasesEnd() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, SHORT);
        Grant fixed = locks.lock("fixed").fixed(Duration.ofMillis(500)).acquire();
        Grant most = locks.lock("most").atMost(Duration.ofMillis(2500)).acquire();
        long begun = System.nanoTime();
        CountDownLatch lost = new CountDownLatch(2);
        fixed.onLost(why -> lost.countDown());
        most.onLost(why -> lost.countDown());
        fixed.check();
        eventually("the fixed one is over", () -> !fixed.isHeld());
        assertTrue(millisSince(begun) >= 450 && millisSince(begun) < 1500);
        assertTrue(most.isHeld());
        lost.await();
        assertTrue(millisSince(begun) >= 2400 && millisSince(begun) < 3500, millisSince(begun) + " ms");
        eventually("it is free", () -> server.run("EXISTS most").equals(0L));
        assertThrows(LockLostException.class, most::release);
    }

    @Test
    void aHoldMoreDoesNotPutOffTheEnd() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, SHORT);
        RedisLock most = locks.lock("k").by(locks.task()).atMost(Duration.ofMillis(2500));
        long begun = System.nanoTime();
        Grant first = most.acquire();
        eventually("nobody keeps it any more", () -> server.keep("k") == 0);
        Grant second = most.lease(Duration.ofSeconds(60)).atMost(Duration.ofMinutes(5)).acquire();
        eventually("its end", () -> !first.isHeld() && !second.isHeld());
        assertTrue(millisSince(begun) >= 2400 && millisSince(begun) < 3500, millisSince(begun) + " ms");
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
        assertTrue(millisSince(begun) < 4000, millisSince(begun) + " ms");
    }

    @Test
    void aShorterLeaseIsHeardOfMoreOften() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(60));
        Grant grant = locks.lock("k").acquire();
        Thread.sleep(100);
        grant.extend(Duration.ofMillis(1500));
        long begun = System.nanoTime();
        while (millisSince(begun) < 4000) {
            assertTrue(grant.isHeld() && grant.remaining().toMillis() > 100, grant.remaining() + " after " + millisSince(begun));
            Thread.sleep(50);
        }
        grant.check();
        grant.release();
    }

    /** The server may have carried it out: nobody knows. */
    @Test
    void aShorterLeaseThatWasNotAnsweredIsBelieved() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        Grant grant = locks(proxy.port).lock("k").fixed(LONG).acquire();
        proxy.inject("keep", "LOCK.RENEW");
        assertThrows(LockUnavailableException.class, () -> grant.extend(Duration.ofMillis(1200)));
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
        within(Duration.ofSeconds(1), "it is told", () -> !grant.isHeld());
    }

    /** The right to renew and to release is taken away for longer than it is to be held. */
    @Test
    void whatMayNotBeEndedIsNotKept() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(2));
        Grant grant = locks.lock("k").atMost(Duration.ofSeconds(3)).acquire();
        server.run("ACL SETUSER default -lock.renew -lock.release");
        eventually("its time is over", () -> !grant.isHeld());
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
    }

    @Test
    void extendsAndAdoptsAndForces() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, SHORT);
        Grant grant = locks.lock("k").fixed(SHORT).owner("mine").acquire();
        grant.extend(Duration.ofSeconds(20));
        assertTrue(grant.remaining().toSeconds() >= 15);
        Locks others = locks(server.port, SHORT);
        Grant adopted = others.adopt("k", grant.owner(), grant.token());
        assertEquals(30_000L, ((List<?>) ((List<?>) server.run("LOCK.HOLDERS k")).get(0)).get(17));
        adopted.check();
        assertThrows(LockLostException.class, () -> others.adopt("k", "mine", grant.token() - 1));
        assertTrue(others.forceUnlock("k"));
        assertFalse(others.forceUnlock("k"));
        eventually("the loss is told", () -> !adopted.isHeld());
        Grant async = locks.lock("k").owner("by name").acquireAsync().get();
        assertEquals("by name", server.info("k", "owner"));
        assertTrue(others.lock("k").asLock().forceUnlock());
        eventually("the loss is told", () -> !async.isHeld());
    }

    @Test
    void aDetachedGrantStaysForItsLease() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, SHORT);
        Grant kept = locks.lock("kept").acquire();
        Grant fixed = locks.lock("fixed").fixed(Duration.ofSeconds(60)).acquire();
        Grant other = locks.lock("other").acquire();
        assertEquals(3, locks.held());
        kept.detach(Duration.ofSeconds(3));
        fixed.detach(Duration.ofSeconds(3));
        assertFalse(kept.isHeld() || fixed.isHeld());
        assertThrows(LockMisuseException.class, kept::release);
        assertEquals(1, locks.held());
        other.check();
        assertFalse(locks.awaitReleased(Duration.ofMillis(50)));
        var releasing = new Other<>(() -> locks.awaitReleased(LONG));
        other.release();
        assertTrue(releasing.get());
        locks.close();
        assertEquals(kept.token(), server.info("kept", "token"));
        assertEquals(fixed.token(), server.info("fixed", "token"));
        eventually("both end", () -> server.run("EXISTS kept fixed").equals(0L));
        Locks others = locks(server.port, SHORT);
        Grant lost = others.lock("k").acquire();
        server.run("DEL k");
        assertThrows(LockLostException.class, () -> lost.detach(SHORT));
        RedisLock twice = others.lock("twice").by(others.task());
        Grant first = twice.acquire();
        Grant second = twice.acquire();
        assertThrows(LockMisuseException.class, () -> first.detach(LONG));
        assertTrue(first.isHeld() && second.isHeld());
        second.check();
        second.release();
        first.detach(LONG);
        assertEquals(first.token(), server.info("twice", "token"));
    }

    @Test
    void aThreadExtendsItsLock() throws Exception {
        TestServer server = server();
        ThreadLock lock = locks(server.port).lock("k").fixed(SHORT).asLock();
        assertThrows(IllegalMonitorStateException.class, () -> lock.extend(LONG));
        lock.lock();
        lock.extend(LONG);
        assertTrue(lock.remaining().compareTo(SHORT) > 0);
        assertEquals(LONG.toMillis(), server.info("k", "lease-ms"));
        lock.unlock();
    }

    @Test
    void futuresTakeLocksWithoutThreads() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        AtomicInteger inside = new AtomicInteger();
        List<java.util.concurrent.CompletableFuture<Void>> all = new java.util.ArrayList<>();
        for (int n = 0; n < 50; n++) {
            all.add(locks.lock("k" + n % 5).waiting(LONG).acquireAsync().thenCompose(grant -> {
                inside.incrementAndGet();
                return grant.releaseAsync();
            }));
        }
        for (var one : all) {
            one.get();
        }
        assertEquals(50, inside.get());
        server.run("LOCK.ACQUIRE taken other EX 60");
        var cancelled = locks.lock("taken").waitingForEver().acquireAsync();
        eventually("a waiter", () -> server.waiters("taken").size() == 1);
        cancelled.cancel(true);
        eventually("none", () -> server.waiters("taken").isEmpty());
        var over = locks.lock("taken").waitingForEver().acquireAsync().orTimeout(200, TimeUnit.MILLISECONDS);
        assertThrows(ExecutionException.class, over::get);
        eventually("none after a time-out", () -> server.waiters("taken").isEmpty());
    }

    @Test
    void wrongUseIsToldAtOnce() throws Exception {
        TestServer server = server();
        server.run("SET text text");
        Locks locks = locks(server.port);
        long begun = System.nanoTime();
        RedisLock text = locks.lock("text").waitingForEver();
        assertTrue(assertThrows(LockMisuseException.class, text::acquire).getMessage().contains("WRONGTYPE"));
        assertThrows(NullPointerException.class, () -> locks.lock(null));
        assertThrows(LockMisuseException.class, () -> locks.lock("k").lease(Duration.ZERO));
        assertThrows(LockMisuseException.class, () -> locks.lock("k").lease(Duration.ofMillis(500)).acquire());
        assertThrows(LockMisuseException.class, () -> locks.permit("k", 0));
        assertThrows(LockMisuseException.class, () -> locks.permit("k", 2).asLock());
        assertThrows(LockMisuseException.class, () -> locks.lock("k").owner("x".repeat(300)).waitingForEver().acquire());
        locks.close();
        locks.close();
        assertThrows(LockMisuseException.class, () -> locks.lock("k").waitingForEver().acquire());
        assertTrue(millisSince(begun) < 3000, "told late");
    }
}
