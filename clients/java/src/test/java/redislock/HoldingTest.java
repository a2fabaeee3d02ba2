package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static redislock.TestServer.eventually;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import redislock.RedisLocks.RedisLock;

class HoldingTest extends LocksTest {
    @Test
    void takesAndGivesBack() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, LONG);
        RedisLock lock = locks.get("k");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        lock.lock();
        assertEquals(server.info("k", "token"), lock.token());
        assertTrue(lock.token() > 1L << 50);
        assertFalse(new Other<>(lock::tryLock).get());
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
    void saysWhatTheServerRefuses() throws Exception {
        TestServer server = server();
        server.run("SET k text");
        RedisLock lock = locks(server.port, LONG).get("k");
        assertEquals("WRONGTYPE", assertThrows(LockServer.Refusal.class, lock::lock).word());
    }

    @Test
    void eachThreadIsAnOwnerOfItsOwn() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, LONG);
        Pattern form = Pattern.compile("tests:[^:]+:" + ProcessHandle.current().pid()
                + ":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+");
        Set<String> owners = new HashSet<>();
        for (String key : List.of("a", "b", "c")) {
            new Other<>(() -> locks.lock(key).token()).get();
            String owner = (String) server.info(key, "owner");
            assertTrue(form.matcher(owner).matches(), owner);
            owners.add(owner);
        }
        assertEquals(3, owners.size());
    }

    @Test
    void nestedUseEntersAgainAndUnlocksInAnyOrder() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, LONG);
        RedisLock outer = locks.lock("k");
        RedisLock inner = locks.lock("k");
        RedisLock other = locks.lock("other");
        assertTrue(inner.tryLock());
        assertEquals(3L, server.info("k", "holds"));
        assertEquals(outer.token(), inner.token());
        outer.unlock();
        other.unlock();
        assertEquals(2L, server.info("k", "holds"));
        inner.check();
        inner.unlock();
        assertEquals(1L, server.info("k", "holds"));
        outer.unlock();
        assertNull(server.info("k", "holds"));
    }

    @Test
    void lostAnswersDoNotCountTwice() throws Exception {
        TestServer server = server();
        TestServer cutting = proxy(server);
        RedisLocks locks = locks(cutting.port, SHORT);
        cutting.inject("cut", "LOCK.ACQUIRE");
        RedisLock lock = locks.lock("k");
        assertEquals(1, cutting.lost());
        assertEquals(1L, server.info("k", "holds"));
        cutting.inject("cut", "LOCK.ACQUIRE");
        lock.lock();
        assertEquals(2, cutting.lost());
        assertEquals(2L, server.info("k", "holds"));

        cutting.inject("cut", "LOCK.RENEW");
        eventually("a renewal is cut", () -> cutting.lost() == 3);
        int renewals = server.calls("lock.renew");
        Thread.sleep(SHORT.toMillis());
        assertTrue(server.calls("lock.renew") > renewals);
        lock.check();
        assertEquals(2L, server.info("k", "holds"));

        cutting.inject("cut", "LOCK.RELEASE");
        lock.unlock();
        assertEquals(4, cutting.lost());
        assertEquals(1L, server.info("k", "holds"));
        cutting.inject("cut", "LOCK.RELEASE");
        lock.unlock();
        assertEquals(5, cutting.lost());
        assertNull(server.info("k", "holds"));
    }

    @Test
    void allLocksAreRenewedEveryThirdOfTheirLeaseByOneScheduler() throws Exception {
        int many = 40;
        TestServer server = server();
        RedisLocks locks = locks(server.port, SHORT);
        List<RedisLock> held = new ArrayList<>();
        int threads = Thread.activeCount();
        for (int i = 0; i < many; i++) {
            held.add(locks.lock("k" + i));
        }
        long begun = System.nanoTime();
        int before = server.calls("lock.renew");
        Thread.sleep(3 * SHORT.toMillis());
        int renewals = server.calls("lock.renew") - before;
        long thirds = many * (System.nanoTime() - begun) / (SHORT.toNanos() / 3);
        assertTrue(renewals > thirds / 2 && renewals <= thirds + many, renewals + " renewals in " + thirds + " thirds");
        long schedulers = Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("redis-locks-scheduler")).count();
        assertEquals(1, schedulers);
        held.forEach(RedisLock::check);
        held.forEach(RedisLock::unlock);
        // Some may have been on their way when the locks were unlocked.
        int after = -1;
        for (int times = 0; after != server.calls("lock.renew"); times++) {
            assertTrue(times < 5, "renewals go on");
            after = server.calls("lock.renew");
            Thread.sleep(SHORT.toMillis());
        }
    }

    @Test
    void aLossIsToldAtOnceAndInterruptsTheWork() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, SHORT);
        for (String refusal : List.of("NOTHELD", "NOTOWNER", "FENCED")) {
            long begun = System.nanoTime();
            var lost = assertThrows(LockLostException.class, () -> locks.executeWithLock("k", LONG, lock -> {
                Object owner = server.info("k", "owner");
                server.run("DEL k");
                switch (refusal) {
                    case "NOTOWNER" -> server.run("LOCK.ACQUIRE k other EX 60");
                    case "FENCED" -> server.run("LOCK.ACQUIRE k " + owner + " EX 60");
                    default -> { }
                }
                assertThrows(InterruptedException.class, () -> Thread.sleep(10_000));
                assertThrows(LockLostException.class, lock::check);
                assertThrows(LockLostException.class, lock::lock); // as if nothing had been
                return true;
            }));
            assertTrue(lost.getMessage().startsWith(refusal), lost.getMessage());
            assertTrue(System.nanoTime() - begun < SHORT.toNanos(), "told late");
            assertFalse(Thread.currentThread().isInterrupted());
            server.run("DEL k");
        }
        locks.lock("k").unlock();
    }

    @Test
    void anErrorByTheInterruptIsToldAsTheLoss() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, SHORT);
        assertThrows(LockLostException.class, () -> locks.executeWithLock("k", LONG, lock -> {
            server.run("DEL k");
            Thread.sleep(10_000);
            return true;
        }));
        assertFalse(Thread.currentThread().isInterrupted());
        server.run("LOCK.ACQUIRE taken other EX 60");
        assertThrows(TimeoutException.class, () -> locks.executeWithLock("taken", SHORT, lock -> true));
        assertThrows(ArithmeticException.class, () -> locks.executeWithLock("k", LONG, lock -> 1 / 0));
        assertNull(server.info("k", "owner"));
    }

    @Test
    void aLossIsToldByUnlockAndByLockingAgain() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, LONG);
        RedisLock lock = locks.lock("k");
        server.run("DEL k");
        assertThrows(LockLostException.class, lock::unlock);
        lock.lock();
        server.run("DEL k");
        assertThrows(LockLostException.class, lock::lock);
        assertThrows(LockLostException.class, lock::check);
        assertThrows(LockLostException.class, lock::unlock);
        lock.lock();
        lock.unlock();
    }

    @Test
    void aLeaseThatPassesInSilenceIsLost() throws Exception {
        TestServer server = server();
        RedisLocks locks = locks(server.port, SHORT);
        assertThrows(LockLostException.class, () -> locks.executeWithLock("k", LONG, lock -> {
            eventually("a renewal", () -> server.calls("lock.renew") > 0);
            server.order("pause");
            try {
                long remaining = lock.remaining().toNanos();
                long begun = System.nanoTime();
                lock.check();
                assertThrows(InterruptedException.class, () -> Thread.sleep(10_000));
                long late = System.nanoTime() - begun - remaining;
                assertTrue(late > -SHORT.toNanos() / 3 && late < TimeUnit.MILLISECONDS.toNanos(400), late + " ns late");
                assertThrows(LockLostException.class, lock::check);
            } finally {
                server.order("resume");
            }
            return true;
        }));
    }

    @Test
    void shutdownStopsRenewingAndWaitingAndReleases() throws Exception {
        TestServer server = server();
        Client.Connected connected = client.connect(Client.Topology.SINGLE, server.port, SHORT);
        RedisLocks locks = connected.locks();
        server.run("LOCK.ACQUIRE taken other EX 60");
        RedisLock lock = locks.lock("k");
        lock.lock();
        var waiting = new Other<>(() -> locks.lock("taken").token());
        eventually("a waiter", () -> server.waiters("taken").size() == 1);
        CountDownLatch working = new CountDownLatch(1);
        var guarded = new Other<>(() -> locks.executeWithLock("guarded", LONG, held -> {
            working.countDown();
            Thread.sleep(10_000);
            return true;
        }));
        working.await();
        connected.application().close();
        assertEquals(0, server.waiters("taken").size());
        assertEquals(0L, server.run("EXISTS k guarded"));
        assertInstanceOf(IllegalStateException.class, assertThrows(ExecutionException.class, waiting::get).getCause());
        assertInstanceOf(LockLostException.class, assertThrows(ExecutionException.class, guarded::get).getCause());
        assertThrows(LockLostException.class, lock::check);
        assertThrows(IllegalStateException.class, () -> locks.lock("new"));
    }
}
