package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import java.net.ConnectException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

/** Every call ends in its time, and what cannot pass is told at once. */
class LimitsTest extends LocksTest {
    @Test
    void nowOrNotAtAllIsASecond() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        locks.lock("warm").acquire().release();
        for (String how : List.of("pause", "kill")) {
            server.order(how);
            long begun = System.nanoTime();
            var error = assertThrows(LockUnavailableException.class, () -> locks.lock("k").acquire());
            assertNotNull(error.getCause());
            assertTrue(millisSince(begun) < 1900, how + ": " + millisSince(begun));
            begun = System.nanoTime();
            assertThrows(LockUnavailableException.class, () -> locks.lock("k").waiting(Duration.ofMillis(1500)).acquire());
            assertTrue(millisSince(begun) > 400 && millisSince(begun) < 3400, how + ": " + millisSince(begun));
            if (how.equals("pause")) {
                server.order("resume");
            }
        }
        server.order("restart");
        locks.lock("k").waiting(LONG).acquire().release();
    }

    @Test
    void aReleaseAndACloseAreBounded() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Grant grant = locks.lock("k").acquire();
        Grant other = locks.lock("other").acquire();
        server.run("LOCK.ACQUIRE taken other EX 60");
        List<Other<?>> waits = new ArrayList<>();
        for (int n = 0; n < 30; n++) {
            waits.add(new Other<>(() -> locked(locks, "taken")));
        }
        eventually("30 wait", () -> server.waiters("taken").size() == 30);
        server.order("pause");
        long begun = System.nanoTime();
        assertThrows(LockUnavailableException.class, grant::release);
        assertFalse(grant.isHeld());
        assertTrue(millisSince(begun) < 3000, millisSince(begun) + " ms");
        begun = System.nanoTime();
        locks.close();
        assertTrue(millisSince(begun) < 3500, millisSince(begun) + " ms");
        for (Other<?> wait : waits) {
            var error = assertThrows(ExecutionException.class, wait::get).getCause();
            assertInstanceOf(LockMisuseException.class, error);
        }
        assertThrows(LockLostException.class, other::check);
        server.order("resume");
    }

    /** Calls that begin while it closes end as well, and leave neither a hold nor a place in line. */
    @Test
    void aCloseMissesNobody() throws Exception {
        TestServer server = server();
        server.run("LOCK.ACQUIRE taken other EX 60");
        ThreadLocalRandom random = ThreadLocalRandom.current();
        for (int run = 0; run < 12; run++) {
            Locks locks = locks(server.port);
            locks.lock("warm").acquire().release();
            List<Other<?>> calls = new ArrayList<>();
            for (int n = 0; n < 8; n++) {
                RedisLock lock = locks.lock(n % 2 == 0 ? "taken" : "free" + n).waitingForEver();
                long pause = random.nextLong(3_000_000);
                calls.add(new Other<>(() -> {
                    LockSupport.parkNanos(pause);
                    return lock.acquire();
                }));
            }
            LockSupport.parkNanos(random.nextLong(3_000_000));
            locks.close();
            for (Other<?> call : calls) {
                try {
                    call.get(5, TimeUnit.SECONDS);
                } catch (ExecutionException e) {
                    assertInstanceOf(LockMisuseException.class, e.getCause());
                }
            }
            eventually("nothing is left", () -> server.waiters("taken").isEmpty()
                    && server.run("EXISTS free1 free3 free5 free7").equals(0L));
        }
    }

    @Test
    void whatIsAdoptedWhileItClosesIsNotHeld() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        Locks locks = locks(proxy.port);
        locks.lock("warm").acquire();
        server.run("LOCK.ACQUIRE k mine EX 60");
        long token = (Long) server.info("k", "token");
        proxy.inject(Map.of("delay", 400), "LOCK.RENEW");
        var adopting = new Other<>(() -> locks.adopt("k", "mine", token));
        eventually("it is asked for", () -> server.calls("lock.renew") == 1);
        locks.close();
        assertInstanceOf(LockMisuseException.class,
                assertThrows(ExecutionException.class, () -> adopting.get(5, TimeUnit.SECONDS)).getCause());
        assertEquals(0, locks.held());
    }

    /** The old helper opened 51,330 connections in 10 s. */
    @Test
    void whatIsRefusedIsToldAtOnceAndNotTriedAgain() throws Exception {
        TestServer server = server();
        server.run("ACL SETUSER application on >other ~* +@all");
        Locks wrong = closing(builder(Client.Topology.SINGLE, server.port, "application").build());
        long begun = System.nanoTime();
        var error = assertThrows(LockRefusedException.class, () -> wrong.lock("k").waitingForEver().acquire());
        assertTrue(error.getMessage().contains("WRONGPASS"), error.getMessage());
        assertTrue(millisSince(begun) < 1500, "told late");
        server.run("ACL SETUSER application on >secret resetkeys ~lock:* +@all -lock.acquire");
        Locks barred = closing(builder(Client.Topology.SINGLE, server.port, "application").build());
        assertThrows(LockRefusedException.class, () -> barred.lock("lock:k").waitingForEver().acquire());
        server.run("CONFIG SET maxmemory 1");
        Locks full = locks(server.port);
        assertTrue(assertThrows(LockRefusedException.class, () -> full.lock("k").waitingForEver().acquire())
                .getMessage().contains("OOM"));
        server.run("CONFIG SET maxmemory 0");
    }

    @Test
    void aServerWithoutTheModuleIsNamed() throws Exception {
        TestServer server = server();
        List<TestServer> all = sentinels();
        Locks locks = locks(all.get(all.size() - 1).port); // a Sentinel knows no locks
        assertTrue(assertThrows(LockRefusedException.class, () -> locks.lock("k").waitingForEver().acquire())
                .getMessage().contains("is the module lock loaded?"));
        assertTrue(server.port > 0);
    }

    @Test
    void aClusterThatCannotBeAskedIsAskedWithPauses() throws Exception {
        AtomicInteger asked = new AtomicInteger();
        LockServer cluster = new ClusterServer(List.of("127.0.0.1:1"), (host, port, limit) -> {
            asked.incrementAndGet();
            throw new ConnectException(host + ":" + port);
        }, () -> { });
        try (Locks locks = Locks.of(cluster, "tests")) {
            assertThrows(LockUnavailableException.class, () -> locks.lock("k").waiting(Duration.ofSeconds(1)).acquire());
        }
        assertTrue(asked.get() > 1 && asked.get() < 30, asked + " times");
    }

    @Test
    void whenNoConnectionIsLeftItWaitsWithPauses() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        server.run("PING");
        server.run("CONFIG SET maxclients 1");
        int before = Integer.parseInt(server.stat("total_connections_received"));
        assertThrows(LockUnavailableException.class, () -> locks.lock("k").acquire());
        var waiting = new Other<>(() -> locks.lock("k").waitingForEver().acquire());
        Thread.sleep(2000);
        int attempts = Integer.parseInt(server.stat("total_connections_received")) - before;
        assertTrue(attempts < 30, attempts + " connections");
        server.run("CONFIG SET maxclients 100");
        waiting.get().release();
    }

    @Test
    void aBusyServerIsTriedAgain() throws Exception {
        TestServer server = server(Map.of("busy-reply-threshold", "50"));
        // The script takes its time on a busy machine.
        Locks locks = closing(builder(Client.Topology.SINGLE, server.port).lease(LONG).releaseTimeout(LONG).build());
        Grant grant = locks.lock("k").acquire();
        var script = new Other<>(() -> {
            TestServer another = new TestServer(server.port);
            another.run("EVAL for\u000bi=1,4e7\u000bdo\u000bend 0"); // a command of words
            return true;
        });
        Thread.sleep(150);
        grant.release();
        locks.lock("k").waiting(LONG).acquire().release();
        script.get();
    }

    /** A RuntimeException that is no outage is told at once: it is a defect. */
    @Test
    void defectsAreNotRetried() throws Exception {
        LockServer broken = new LockServer() {
            @Override
            public String node(String key) {
                return "";
            }

            @Override
            public void refresh(Duration limit) { }

            @Override
            public ServerConnection connect(String node, Duration limit) {
                throw new IllegalArgumentException("a defect");
            }

            @Override
            public void close() { }
        };
        try (Locks locks = Locks.of(broken, "tests")) {
            long begun = System.nanoTime();
            var error = assertThrows(LockMisuseException.class, () -> locks.lock("k").waitingForEver().acquire());
            assertEquals("a defect", error.getCause().getMessage());
            assertThrows(LockMisuseException.class, () -> locked(locks, "k"));
            assertTrue(millisSince(begun) < 1000);
        }
    }

    /** What passes has passed when most of the time is over. */
    @Test
    void theLastTryLeavesTimeForItsAnswer() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        locks.lock("warm").acquire();
        for (int n = 0; n < 6; n++) {
            server.run("CONFIG SET min-replicas-to-write 1");
            var asking = new Other<>(() -> locks.lock("k").acquire());
            Thread.sleep(700);
            server.run("CONFIG SET min-replicas-to-write 0");
            asking.get().release();
        }
        server.run("LOCK.ACQUIRE k other EX 60");
        var first = new Other<>(() -> locks.lock("k").waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("k").size() == 1);
        server.run("CONFIG SET min-replicas-to-write 1");
        var second = new Other<>(() -> locks.lock("k").waiting(Duration.ofMillis(1700)).acquire());
        Thread.sleep(1400);
        server.run("CONFIG SET min-replicas-to-write 0");
        server.run("LOCK.RELEASE k other");
        first.get().release();
        second.get().release();
    }

    /** Calls of one owner, one behind the other, at a server that hangs. */
    @Test
    void aTurnIsPartOfTheTimeOfItsCall() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        RedisLock lock = locks.lock("k").owner("mine");
        Grant grant = lock.acquire();
        server.order("pause");
        try {
            for (RedisLock asked : List.of(lock, locks.lock("free").owner("mine"))) {
                long begun = System.nanoTime();
                List<Other<Grant>> all = List.of(new Other<>(asked::acquire), new Other<>(asked::acquire),
                        new Other<>(asked::acquire));
                for (Other<Grant> one : all) {
                    assertThrows(ExecutionException.class, one::get);
                }
                assertTrue(millisSince(begun) < 1600, millisSince(begun) + " ms");
            }
            var asking = new Other<>(lock::acquire);
            Thread.sleep(100);
            long begun = System.nanoTime();
            assertThrows(LockUnavailableException.class, grant::release);
            assertTrue(millisSince(begun) < 2500, millisSince(begun) + " ms");
            assertThrows(ExecutionException.class, asking::get);
        } finally {
            server.order("resume");
        }
    }
}
