package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static io.github.redislock.TestServer.eventually;

import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class TopologiesTest extends LocksTest {
    @Test
    void inAClusterEachLockIsAtTheNodeOfItsKey() throws Exception {
        List<TestServer> nodes = cluster();
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(0).port, LONG);
        Set<Integer> at = new HashSet<>();
        for (int i = 0; i < 20; i++) {
            String key = "k" + i;
            TestServer home = nodes.get(home(nodes, key));
            at.add(home(nodes, key));
            ThreadLock lock = locked(locks, key);
            lock.lock();
            assertEquals(2L, home.info(key, "holds"));
            var interrupted = new Other<>(() -> locks.lock(key).asLock().tryLock(20, TimeUnit.SECONDS));
            eventually("a waiter", () -> home.waiters(key).size() == 1);
            var waiting = new Other<>(() -> {
                ThreadLock next = locked(locks, key);
                next.unlock();
                return true;
            });
            eventually("two waiters", () -> home.waiters(key).size() == 2);
            interrupted.thread.interrupt();
            assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, interrupted::get).getCause());
            assertEquals(1, home.waiters(key).size());
            lock.unlock();
            lock.unlock();
            assertTrue(waiting.get());
        }
        assertEquals(3, at.size());
    }

    @Test
    void inAClusterAWaitIsLongerThanTheTimeoutOfOtherCalls() throws Exception {
        List<TestServer> nodes = cluster();
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(0).port, LONG);
        for (String key : List.of("a", "b", "c")) {
            TestServer home = nodes.get(home(nodes, key));
            home.run("LOCK.ACQUIRE " + key + " other EX 60");
            var waiting = new Other<>(() -> locked(locks, key).token());
            eventually("a waiter", () -> home.waiters(key).size() == 1);
            Object id = home.waiters(key).get(0).get("client-id");
            Thread.sleep(1000 * 3 / 2);
            assertEquals(id, home.waiters(key).get(0).get("client-id"), "it has left the queue");
            home.run("DEL " + key);
            waiting.get();
        }
    }

    @Test
    void inAClusterItFollowsASlotThatMoves() throws Exception {
        List<TestServer> nodes = cluster();
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(1).port, LONG);
        locked(locks, "k").unlock();
        SlotMove move = SlotMove.of(nodes);
        move.end();
        TestServer home = move.to;
        ThreadLock lock = locked(locks, "k");
        assertEquals(lock.token(), home.info("k", "token"));
        var waiting = new Other<>(() -> locked(locks, "k").token());
        eventually("a waiter", () -> home.waiters("k").size() == 1);
        lock.unlock();
        assertEquals(home.info("k", "token"), waiting.get());
    }

    /** Who only looks hears of it too. */
    @Test
    void inAClusterALookFollowsASlotThatMoves() throws Exception {
        List<TestServer> nodes = cluster();
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(1).port, LONG);
        assertTrue(locks.holders("k").isEmpty());
        SlotMove move = SlotMove.of(nodes);
        move.end();
        TestServer home = move.to;
        home.run("LOCK.ACQUIRE k other EX 60");
        eventually("it looks there", () -> {
            try {
                return locks.holders("k").size() == 1;
            } catch (LockUnavailableException e) {
                return false; // of the first one
            }
        });
        assertTrue(locks.forceUnlock("k"));
    }

    @Test
    void inAClusterAHungNodeHoldsUpNoOther() throws Exception {
        List<TestServer> nodes = cluster();
        for (TestServer node : nodes) {
            node.run("CONFIG SET cluster-require-full-coverage no");
        }
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(0).port, Duration.ofSeconds(5));
        Grant a = locks.lock("a").acquire(); // slot 15495
        Grant b = locks.lock("b").acquire(); // slot 3300
        TestServer hung = nodes.get(home(nodes, "a"));
        hung.order("pause");
        try {
            long begun = System.nanoTime();
            while (millisSince(begun) < 6000) {
                long step = System.nanoTime();
                b.check();
                locks.lock("{b}" + begun).acquire().release();
                assertTrue(millisSince(step) < 900, millisSince(step) + " ms");
                Thread.sleep(50);
            }
            assertTrue(b.isHeld());
            eventually("the other is lost", () -> !a.isHeld());
        } finally {
            hung.order("resume");
        }
        b.release();
    }

    @Test
    void inAClusterAGrantThatMovedWithItsSlotIsToldOrKept() throws Exception {
        List<TestServer> nodes = cluster();
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(1).port, LONG);
        Grant grant = locks.lock("k").acquire();
        SlotMove move = SlotMove.of(nodes);
        move.begin();
        move.end();
        eventually("it is kept there", () -> move.to.calls("lock.renew") > 0
                && Long.valueOf(grant.token()).equals(move.to.info("k", "token")));
        grant.check();
        grant.release();
        assertEquals(0L, move.to.run("EXISTS k"));
    }

    /** The map of the cluster loses the slot between a call and its answer. */
    @Test
    void aGrantIsToldAlsoWhereNobodyIsKnownToServeItsSlot() throws Exception {
        TestServer server = server();
        AtomicBoolean isLost = new AtomicBoolean();
        HeldUpServer real = new HeldUpServer(lockServer(server.port), (word, call) -> {
            CompletableFuture<Object> reply = call.get();
            isLost.compareAndSet(false, word.equals("LOCK.ACQUIRE"));
            return reply;
        });
        Locks locks = closing(Locks.of(new LockServer() {
            @Override
            public String node(String key) {
                return isLost.get() ? null : real.node(key);
            }

            @Override
            public void refresh(Duration limit) { }

            @Override
            public ServerConnection connect(String node, Duration limit) throws IOException {
                return real.connect(node, limit);
            }

            @Override
            public void close() {
                real.close();
            }
        }, "tests"));
        Grant grant = new Other<>(() -> locks.lock("k").acquire()).get(5, TimeUnit.SECONDS);
        assertEquals(grant.token(), server.info("k", "token"));
        isLost.set(false);
        grant.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void inAClusterTheAnswerAskPasses() throws Exception {
        List<TestServer> nodes = cluster();
        Locks locks = locks(Client.Topology.CLUSTER, nodes.get(1).port, LONG);
        Grant grant = locks.lock("k").acquire();
        SlotMove move = SlotMove.of(nodes);
        move.begin();
        eventually("a renewal is sent on", () -> move.from.run("INFO errorstats").toString().contains("errorstat_ASK"));
        assertThrows(LockUnavailableException.class, grant::check);
        assertThrows(LockUnavailableException.class, () -> locks.lock("{k}new").acquire());
        move.from.run("CONFIG RESETSTAT");
        var waiting = new Other<>(() -> locks.lock("{k}new").waiting(LONG).acquire());
        eventually("a call is sent on", () -> move.from.run("INFO errorstats").toString().contains("errorstat_ASK"));
        move.end();
        Grant other = waiting.get();
        assertEquals(other.token(), move.to.info("{k}new", "token"));
        other.release();
        eventually("it is kept there", () -> move.to.calls("lock.renew") > 0);
        grant.check();
        grant.release();
        assertEquals(0L, move.to.run("EXISTS k"));
    }

    /** The slot of k goes from its node to the next one. */
    private record SlotMove(TestServer from, TestServer to, Object slot, Object id) {
        static SlotMove of(List<TestServer> nodes) {
            int from = home(nodes, "k");
            TestServer to = nodes.get((from + 1) % 3);
            return new SlotMove(nodes.get(from), to, to.run("CLUSTER KEYSLOT k"), to.run("CLUSTER MYID"));
        }

        /** What is there goes over. */
        void begin() {
            to.run("CLUSTER SETSLOT " + slot + " IMPORTING " + from.run("CLUSTER MYID"));
            from.run("CLUSTER SETSLOT " + slot + " MIGRATING " + id);
            from.run("MIGRATE 127.0.0.1 " + to.port + " k 0 5000");
        }

        void end() {
            to.run("CLUSTER SETSLOT " + slot + " NODE " + id);
            from.run("CLUSTER SETSLOT " + slot + " NODE " + id);
        }
    }
}
