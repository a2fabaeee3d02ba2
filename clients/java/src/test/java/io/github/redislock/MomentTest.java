package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** The moment between the grant of a wait and its takeover by the keeper. */
class MomentTest extends LocksTest {
    private static final long KEEP = 30_000;

    /** What had to wait for it, and has it now. */
    private static CompletableFuture<Grant> inLine(TestServer server, RedisLock lock, String key) throws Exception {
        server.run("LOCK.ACQUIRE " + key + " other EX 60");
        CompletableFuture<Grant> coming = lock.waiting(LONG).acquireAsync();
        eventually("a waiter", () -> server.waiters(key).size() == 1);
        return coming;
    }

    private static Grant waited(TestServer server, RedisLock lock, String key) throws Exception {
        CompletableFuture<Grant> coming = inLine(server, lock, key);
        server.run("LOCK.RELEASE " + key + " other");
        return coming.get();
    }

    private static Grant waited(TestServer server, Locks locks) throws Exception {
        return waited(server, locks.lock("k"), "k");
    }

    @Test
    void whatIsHeldForAMomentIsNotRenewed() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        int slow = 0;
        for (int run = 0; run < 40; run++) {
            CompletableFuture<Grant> coming = inLine(server, locks.lock("k"), "k");
            long begun = System.nanoTime();
            server.run("LOCK.RELEASE k other");
            Grant grant = coming.get();
            assertTrue(grant.isHeld());
            assertTrue(grant.remaining().compareTo(LONG) < 0 && grant.remaining().toMillis() > LONG.toMillis() / 2);
            grant.release();
            slow += millisSince(begun) < 90 ? 0 : 1; // by a machine under load
        }
        assertTrue(slow < 20, slow + " took long");
        Thread.sleep(150);
        assertTrue(server.calls("lock.renew") <= slow, server.calls("lock.renew") + " renewals");
        assertEquals(0L, server.run("DBSIZE"));
    }

    @Test
    void whatIsHeldForLongerIsKept() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofMillis(1500));
        Grant grant = waited(server, locks);
        eventually("it is kept", () -> server.keep("k") == KEEP);
        Thread.sleep(2500);
        assertTrue(grant.isHeld());
        assertEquals(grant.token(), server.info("k", "token"));
        assertEquals(1, server.calls("lock.renew"));
        grant.check();
        grant.release();
        assertNull(server.info("k", "token"));
    }

    @Test
    void itsEndInThatMomentIsToldSoonAfter() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        Grant grant = waited(server, locks);
        AtomicInteger told = new AtomicInteger();
        grant.onLost(why -> told.incrementAndGet());
        server.run("DEL k");
        long begun = System.nanoTime();
        eventually("it is told", () -> told.get() == 1);
        assertTrue(millisSince(begun) < 1000, "told late");
        assertFalse(grant.isHeld());
        assertThrows(LockLostException.class, grant::release);
    }

    @Test
    void aCheckIsTheTakeover() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        Grant grant = waited(server, locks);
        grant.check();
        assertEquals(KEEP, server.keep("k"));
        Thread.sleep(150);
        assertEquals(1, server.calls("lock.renew"));
        grant.release();
        Grant deleted = waited(server, locks);
        server.run("DEL k");
        assertThrows(LockLostException.class, deleted::check);
        assertFalse(deleted.isHeld());
    }

    /** Whatever else concerns it comes behind the takeover. */
    @Test
    void otherCallsTakeItOverFirst() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        Grant extended = waited(server, locks);
        extended.extend(LONG.plus(LONG));
        assertEquals(KEEP, server.keep("k"));
        assertTrue(extended.remaining().compareTo(LONG) > 0);
        extended.release();

        Grant reader = waited(server, locks);
        reader.downgrade();
        assertEquals(KEEP, server.keep("k"));
        locks.shared("k").acquire().release();
        reader.release();

        Task task = locks.task();
        Grant first = waited(server, locks.lock("k").by(task), "k");
        Grant second = locks.lock("k").by(task).acquire();
        assertEquals(KEEP, server.keep("k"));
        assertEquals(2L, server.info("k", "holds"));
        second.release();
        first.release();
        assertEquals(0L, server.run("DBSIZE"));
        assertEquals("0", server.stat("lock_kept"));
    }

    @Test
    void releasesAtTheTakeoverLeaveNothing() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        int count = 150;
        AtomicInteger lost = new AtomicInteger();
        for (int run = 0; run < 4; run++) {
            List<CompletableFuture<Void>> all = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                server.run("LOCK.ACQUIRE k" + n + " other EX 60");
                long micros = ThreadLocalRandom.current().nextInt(95_000, 106_000);
                Executor later = CompletableFuture.delayedExecutor(micros, TimeUnit.MICROSECONDS);
                boolean isReleased = n % 3 != 0;
                all.add(locks.lock("k" + n).waiting(LONG).acquireAsync().thenAcceptAsync(grant -> {
                    grant.onLost(why -> lost.incrementAndGet());
                    if (isReleased) {
                        grant.release();
                    } else {
                        grant.detach(Duration.ofMinutes(1));
                    }
                }, later));
            }
            eventually("all wait", () -> server.stat("blocked_clients").equals("" + count));
            for (int n = 0; n < count; n++) {
                server.run("LOCK.RELEASE k" + n + " other");
            }
            CompletableFuture.allOf(all.toArray(CompletableFuture<?>[]::new)).get(20, TimeUnit.SECONDS);
            int renewals = server.calls("lock.renew");
            assertEquals((long) count / 3, server.run("DBSIZE"), "a hold stayed behind in run " + run);
            assertEquals("0", server.stat("lock_kept"), "kept in run " + run);
            Thread.sleep(150);
            assertEquals(renewals, server.calls("lock.renew"), "renewed afterwards in run " + run);
            server.run("FLUSHALL");
        }
        assertEquals(0, lost.get());
        assertEquals(0, locks.held());
    }

    @Test
    void aCloseInThatMomentFreesIt() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        Grant grant = waited(server, locks);
        locks.close();
        assertEquals(0L, server.run("DBSIZE"));
        assertFalse(grant.isHeld());
    }

    @Test
    void brokenConnectionsAndAHungServerDelayTheTakeover() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(12));
        Grant broken = waited(server, locks);
        server.run("CLIENT KILL TYPE normal SKIPME yes");
        eventually("it is kept", () -> server.keep("k") == KEEP);
        broken.check();
        broken.release();
        Grant hung = waited(server, locks);
        server.order("pause");
        Thread.sleep(1500);
        server.order("resume");
        eventually("it is kept", () -> server.keep("k") == KEEP);
        assertTrue(hung.isHeld());
        hung.release();
    }

    @Test
    void theTimeForWhichItIsHeldAtMostBeginsWithTheGrant() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(3));
        CompletableFuture<Grant> coming = inLine(server, locks.lock("k").atMost(Duration.ofSeconds(1)), "k");
        Thread.sleep(500);
        server.run("LOCK.RELEASE k other");
        Grant grant = coming.get();
        long begun = System.nanoTime();
        eventually("its end", () -> !grant.isHeld());
        long lasted = millisSince(begun);
        assertTrue(lasted > 700 && lasted < 2000, lasted + " ms");
        eventually("it is free", () -> server.info("k", "token") == null);
    }

    @Test
    void afterALongWaitItIsRenewedFirst() throws Exception {
        TestServer server = server();
        Duration lease = Duration.ofSeconds(3);
        Locks locks = locks(server.port, lease);
        for (RedisLock lock : List.of(locks.lock("k"), locks.lock("k").fixed(lease))) {
            int renewals = server.calls("lock.renew");
            CompletableFuture<Grant> coming = inLine(server, lock, "k");
            Thread.sleep(1200);
            long begun = System.nanoTime();
            server.run("LOCK.RELEASE k other");
            Grant grant = coming.get();
            long remaining = grant.remaining().toMillis();
            long took = millisSince(begun);
            assertEquals(renewals + 1, server.calls("lock.renew"));
            assertTrue(remaining <= 3000 && remaining >= 3000 - took - 1, remaining + " ms after " + took);
            grant.release();
        }
    }
}
