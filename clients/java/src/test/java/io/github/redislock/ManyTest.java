package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Many locks, many tasks, for long where LONG is set. */
class ManyTest extends LocksTest {
    private static final boolean IS_LONG = System.getenv("LONG") != null;

    @Test
    void tenThousandLocksOutliveAPause() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(10));
        AtomicInteger lost = new AtomicInteger();
        List<CompletableFuture<Grant>> all = new ArrayList<>();
        for (int n = 0; n < 10_000; n++) {
            all.add(locks.lock("k" + n).waiting(LONG).acquireAsync());
        }
        for (var one : all) {
            one.get().onLost(why -> lost.incrementAndGet());
        }
        long begun = System.nanoTime();
        server.order("pause"); // a stall of both sides is the same to the client
        Thread.sleep(3000);
        server.order("resume");
        all.get(0).get().remaining();
        within(Duration.ofSeconds(20), "they are renewed", () ->
                Integer.parseInt(server.stat("lock_kept_renewals")) > 10_000 || millisSince(begun) > 9000);
        assertEquals(0, lost.get());
        assertEquals("10000", server.stat("lock_kept"));
        locks.close();
        assertEquals(0L, server.run("DBSIZE"));
    }

    @Test
    void manyTasksOnFewLocksAreNeverTwoInside() throws Exception {
        TestServer server = server();
        // 500 connections at once take their time on a busy machine.
        Locks locks = closing(builder(Client.Topology.SINGLE, server.port).lease(LONG).replyTimeout(LONG)
                .releaseTimeout(LONG).build());
        Map<String, AtomicInteger> inside = new ConcurrentHashMap<>();
        AtomicInteger most = new AtomicInteger();
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            String key = "k" + n % 10;
            AtomicInteger here = inside.computeIfAbsent(key, name -> new AtomicInteger());
            all.add(locks.lock(key).by(locks.task()).waitingForEver().acquireAsync().thenCompose(grant -> {
                most.accumulateAndGet(here.incrementAndGet(), Math::max);
                here.decrementAndGet();
                return grant.releaseAsync();
            }));
        }
        CompletableFuture.allOf(all.toArray(CompletableFuture<?>[]::new)).get(60, TimeUnit.SECONDS);
        assertEquals(1, most.get());
        assertEquals(0L, server.run("DBSIZE"));
        eventually("idle connections are ended", () -> Integer.parseInt(server.stat("connected_clients")) <= 256 + 2);
    }

    @Test
    void nothingGrows() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        int rounds = IS_LONG ? 50_000 : 3000;
        int connections = 0;
        int threads = 0;
        for (int n = 0; n < rounds; n++) {
            Grant grant = locks.lock("k").acquire();
            if (n % 10 == 0) {
                var next = locks.lock("k").waiting(LONG).acquireAsync();
                grant.release();
                next.get().release();
            } else {
                grant.release();
            }
            if (n == rounds / 3) {
                connections = Integer.parseInt(server.stat("total_connections_received"));
                threads = Thread.activeCount();
            }
        }
        assertEquals(connections, Integer.parseInt(server.stat("total_connections_received")));
        assertTrue(Thread.activeCount() <= threads + 3, Thread.activeCount() + " threads");
    }

    /** No thread, no timer and no hook of the JVM has it any more. */
    @Test
    void whatIsClosedIsForgotten() throws Exception {
        TestServer server = server();
        List<WeakReference<LockObserver>> all = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            all.add(usedAndClosed(server));
        }
        eventually("they are forgotten", () -> {
            System.gc();
            return all.stream().allMatch(one -> one.get() == null);
        });
    }

    private WeakReference<LockObserver> usedAndClosed(TestServer server) throws Exception {
        LockObserver observer = new LockObserver() { };
        try (Locks locks = builder(Client.Topology.SINGLE, server.port).observer(observer).closeAtExit().build()) {
            locks.lock("k").acquire().release();
        }
        return new WeakReference<>(observer);
    }

    @Test
    void interruptsAtRandomMomentsLeaveNothing() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, LONG);
        ThreadLock lock = locks.lock("k").asLock();
        AtomicInteger inside = new AtomicInteger();
        for (int run = 0; run < (IS_LONG ? 500 : 60); run++) {
            List<Other<Boolean>> all = new ArrayList<>();
            for (int n = 0; n < 4; n++) {
                all.add(new Other<>(() -> {
                    try {
                        lock.lockInterruptibly();
                    } catch (InterruptedException e) {
                        return false;
                    }
                    assertEquals(1, inside.incrementAndGet());
                    inside.decrementAndGet();
                    lock.unlock();
                    return true;
                }));
            }
            for (Other<Boolean> one : all) {
                TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(800));
                one.thread.interrupt();
            }
            for (Other<Boolean> one : all) {
                one.get(20, TimeUnit.SECONDS);
            }
            assertEquals(0L, server.run("EXISTS k"), "a hold stayed behind in run " + run);
            assertEquals(0, server.waiters("k").size(), "a wait stayed behind in run " + run);
        }
    }
}
