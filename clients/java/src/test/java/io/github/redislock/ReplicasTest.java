package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;

/** Locks that are granted only when replicas have them. */
class ReplicasTest extends LocksTest {
    private TestServer replicaOf(TestServer primary) throws InterruptedException {
        TestServer replica = server();
        replica.run("REPLICAOF 127.0.0.1 " + primary.port);
        eventually("the replica follows", () -> primary.stat("connected_slaves").equals("1")
                && primary.stat("slave0").contains("state=online"));
        return replica;
    }

    private static void isKept(TestServer server, Grant grant) {
        assertEquals(30_000L, server.keep(grant.key()), "kept");
    }

    private static void isFree(TestServer server) throws InterruptedException {
        eventually("free", () -> server.run("EXISTS k").equals(0L));
    }

    @Test
    void aReplicaHasWhatIsGranted() throws Exception {
        TestServer primary = server();
        TestServer replica = replicaOf(primary);
        Locks locks = locks(primary.port);
        for (int n = 0; n < 20; n++) {
            try (Grant grant = locks.lock("k").replicas(1).acquire()) {
                assertEquals(grant.token(), replica.info("k", "token"), "before it is told");
                isKept(primary, grant);
                grant.check();
                assertTrue(locks.lock("k").replicas(1).tryAcquire().isEmpty(), "others have it");
            }
        }
        isFree(primary);
        try (Grants grants = locks.all("a", "b").each(lock -> lock.replicas(1)).acquire()) {
            assertEquals(grants.of("b").token(), replica.info("b", "token"));
        }
        try (Grant grant = locks.lock("k").replicas(1).fixed(LONG).acquire()) {
            assertEquals(grant.token(), replica.info("k", "token"));
        }
        assertThrows(LockMisuseException.class, () -> locks.lock("k").replicas(1).asLock());
    }

    @Test
    void whoAsksLastHasItAlsoWithReplicas() throws Exception {
        TestServer primary = server();
        replicaOf(primary);
        Grant first = locks(primary.port).lock("k").owner("me").acquire();
        try (Grant second = locks(primary.port).lock("k").owner("me").replicas(1).waiting(LONG).acquire()) {
            assertEquals(first.token(), second.token());
            assertThrows(LockLostException.class, first::check);
            second.check();
        }
    }

    @Test
    void whatTooFewReplicasHaveIsGivenBack() throws Exception {
        TestServer primary = server();
        TestServer replica = replicaOf(primary);
        Locks locks = locks(primary.port);
        long begun = System.nanoTime();
        LockException few = assertThrows(LockUnavailableException.class, () -> locks.lock("k").replicas(2).acquire());
        assertTrue(few.getMessage().contains("1 of 2 replicas"), few.getMessage());
        assertTrue(millisSince(begun) < 3000);
        isFree(primary);

        replica.order("pause");
        begun = System.nanoTime();
        LockException hung = assertThrows(LockUnavailableException.class, () -> locks.lock("k").replicas(1).acquire());
        assertTrue(hung.getMessage().contains("0 of 1 replicas"), hung.getMessage());
        assertTrue(millisSince(begun) < 3000);
        isFree(primary);
        locks.lock("k").acquire().release(); // which asks no replica
        replica.order("resume");
        locks.lock("k").replicas(1).waiting(LONG).acquire().release();
    }

    @Test
    void aWaitEndsWithAnAcknowledgedGrant() throws Exception {
        TestServer primary = server();
        TestServer replica = replicaOf(primary);
        Locks locks = locks(primary.port);
        Grant first = locks.lock("k").acquire();
        var waiting = new Other<>(() -> locks.lock("k").replicas(1).waiting(LONG).acquire());
        eventually("a waiter", () -> primary.waiters("k").size() == 1);
        first.release();
        try (Grant grant = waiting.get()) {
            assertTrue(grant.token() > first.token());
            assertEquals(grant.token(), replica.info("k", "token"));
            isKept(primary, grant);
        }
    }

    @Test
    void whoIsStoppedWhileReplicasAreAskedLeavesNothing() throws Exception {
        TestServer primary = server();
        TestServer replica = replicaOf(primary);
        Locks locks = closing(builder(Client.Topology.SINGLE, primary.port).replyTimeout(Duration.ofSeconds(5)).build());
        replica.order("pause");
        var asking = new Other<>(() -> locks.lock("k").replicas(1).waitingForEver().acquire());
        eventually("the replicas are asked", () -> primary.info("k", "token") != null);
        asking.thread.interrupt();
        assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, asking::get).getCause());
        isFree(primary);
        replica.order("resume");
        assertEquals(0, locks.held());
    }

    /** Also of what its owner has already. */
    @Test
    void aHoldMoreIsAcknowledgedToo() throws Exception {
        TestServer primary = server();
        Locks locks = locks(primary.port);
        for (RedisLock lock : List.of(locks.lock("k").owner("mine"), locks.lock("k").by(locks.task()))) {
            Grant first = lock.acquire();
            LockException few = assertThrows(LockUnavailableException.class, () -> lock.replicas(1).acquire());
            assertTrue(few.getMessage().contains("0 of 1 replicas"), few.getMessage());
            eventually("one hold", () -> primary.info("k", "holds").equals(1L));
            first.check();
            first.release();
            isFree(primary);
        }
        TestServer replica = replicaOf(primary);
        Grant first = locks.lock("k").owner("mine").acquire();
        Grant second = locks.lock("k").owner("mine").replicas(1).acquire();
        assertEquals(2L, replica.info("k", "holds"), "before it is told");
        second.release();
        first.release();
        isFree(primary);
    }

    @Test
    void theyKeepTheTimeLimits() throws Exception {
        TestServer primary = server();
        Locks locks = locks(primary.port);
        locks.lock("warm").acquire();
        primary.order("pause");
        try {
            long begun = System.nanoTime();
            assertThrows(LockUnavailableException.class, () -> locks.lock("k").replicas(1).acquire());
            assertTrue(millisSince(begun) < 1700, millisSince(begun) + " ms");
            begun = System.nanoTime();
            assertThrows(LockUnavailableException.class,
                    () -> locks.lock("k").replicas(1).waiting(Duration.ofMillis(500)).acquire());
            assertTrue(millisSince(begun) < 2200, millisSince(begun) + " ms");
        } finally {
            primary.order("resume");
        }
        isFree(primary);
    }
}
