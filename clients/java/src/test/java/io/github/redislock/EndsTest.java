package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Until when a grant is known, and how long it may be held. */
class EndsTest extends LocksTest {
    /** The server ends it by the shorter lease, whose answer is still to come. */
    @Test
    void aShorterLeaseCountsFromItsSending() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        Locks locks = closing(builder(Client.Topology.SINGLE, proxy.port).replyTimeout(Duration.ofSeconds(4)).build());
        for (RedisLock lock : List.of(locks.lock("k").fixed(LONG), locks.lock("k").lease(LONG))) {
            Grant grant = lock.acquire();
            proxy.order("swallow");
            var asking = new Other<>(() -> {
                grant.extend(Duration.ofMillis(500));
                return null;
            });
            TestServer.within(Duration.ofMillis(2500), "it is over", () -> !grant.isHeld());
            assertFalse(asking.isDone());
            proxy.order("speak");
            assertThrows(ExecutionException.class, asking::get);
            server.run("DEL k");
        }
    }

    @Test
    void anExtensionDoesNotPutOffTheEnd() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        for (RedisLock lock : List.of(locks.lock("k").atMost(Duration.ofMillis(800)),
                locks.lock("k").atMost(Duration.ofMillis(800)).owner("mine"),
                locks.lock("k").fixed(Duration.ofMillis(500)).atMost(Duration.ofMillis(800)))) {
            long begun = System.nanoTime();
            Grant grant = lock.acquire();
            grant.extend(Duration.ofSeconds(30));
            assertTrue(grant.remaining().toMillis() <= 800, grant.remaining().toString());
            eventually("its end", () -> !grant.isHeld());
            assertTrue(millisSince(begun) >= 750 && millisSince(begun) < 2000, millisSince(begun) + " ms");
            eventually("it is free", () -> server.run("EXISTS k").equals(0L));
            assertTrue(millisSince(begun) < 2500, millisSince(begun) + " ms");
        }
    }

    @Test
    void aHoldMoreOfANamedOwnerEndsAtTheServerToo() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(20));
        RedisLock lock = locks.lock("k").owner("mine").lease(SHORT).atMost(Duration.ofMillis(1500));
        long begun = System.nanoTime();
        Grant first = lock.acquire();
        eventually("nobody keeps it any more", () -> server.keep("k") == 0);
        Grant second = lock.lease(LONG).atMost(Duration.ofMinutes(1)).acquire();
        eventually("its end", () -> !first.isHeld() && !second.isHeld());
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
        assertTrue(millisSince(begun) < 3000, millisSince(begun) + " ms");
    }

    @Test
    void aLongerSilenceOfAHoldMoreOutlivesTheConnection() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        RedisLock lock = locks.lock("k").by(locks.task());
        Grant first = lock.keep(Duration.ofSeconds(5)).acquire();
        Grant second = lock.keep(Duration.ofSeconds(50)).acquire();
        assertEquals(50_000, server.keep("k"));
        int renewals = server.calls("lock.renew");
        server.run("CLIENT KILL TYPE normal SKIPME yes");
        eventually("it is kept again", () -> server.calls("lock.renew") > renewals && server.keep("k") > 0);
        assertEquals(50_000, server.keep("k"));
        second.release();
        first.release();
    }

    @Test
    void whoHasReleasedHearsNothingOfTheHoldsOfOthers() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        RedisLock lock = locks.lock("k").owner("mine");
        Grant outer = lock.acquire();
        AtomicInteger told = new AtomicInteger();
        AtomicInteger toldInner = new AtomicInteger();
        outer.onLost(why -> told.incrementAndGet());
        Grant inner = lock.acquire();
        inner.onLost(why -> toldInner.incrementAndGet());
        inner.release();
        server.run("DEL k");
        eventually("it is told", () -> told.get() == 1);
        assertThrows(LockLostException.class, outer::check);
        assertEquals(0, toldInner.get());
    }

    @Test
    void noSilenceToBearAndNoLeaseAreMisuse() {
        for (Duration time : List.of(Duration.ZERO, Duration.ofSeconds(-1))) {
            assertThrows(LockMisuseException.class, () -> builder(Client.Topology.SINGLE, 1).keep(time));
            assertThrows(LockMisuseException.class, () -> builder(Client.Topology.SINGLE, 1).lease(time));
        }
    }
}
