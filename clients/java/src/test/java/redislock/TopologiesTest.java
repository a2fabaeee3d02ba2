package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static redislock.TestServer.eventually;
import static redislock.TestServer.within;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import redislock.RedisLocks.RedisLock;

class TopologiesTest extends LocksTest {
    @Test
    void holdsAndWaitsThroughASentinelFailover() throws Exception {
        List<TestServer> all = sentinels();
        TestServer primary = all.get(0);
        TestServer replica = all.get(1);
        TestServer sentinel = all.get(2);
        RedisLocks locks = locks(Client.Topology.SENTINEL, sentinel.port, Duration.ofSeconds(30));
        RedisLock lock = locks.lock("k");
        long token = lock.token();
        var waiting = new Other<>(() -> locks.lock("k").token());
        eventually("a waiter", () -> primary.waiters("k").size() == 1);
        eventually("the replica has it", () -> Long.valueOf(token).equals(replica.info("k", "token")));
        primary.order("kill");

        within(Duration.ofSeconds(40), "the wait goes on at the new primary", () -> replica.waiters("k").size() == 1);
        lock.lock();
        assertEquals(token, lock.token());
        assertEquals(2L, replica.info("k", "holds"));
        within(Duration.ofSeconds(15), "a renewal at the new primary", () -> replica.calls("lock.renew") > 0);
        lock.unlock();
        lock.unlock();
        assertTrue(waiting.get() > token);
    }

    @Test
    void inAClusterEachLockIsAtTheNodeOfItsKey() throws Exception {
        List<TestServer> nodes = cluster();
        RedisLocks locks = locks(Client.Topology.CLUSTER, nodes.get(0).port, LONG);
        Set<Integer> at = new HashSet<>();
        for (int i = 0; i < 20; i++) {
            String key = "k" + i;
            TestServer home = nodes.get(home(nodes, key));
            at.add(home(nodes, key));
            RedisLock lock = locks.lock(key);
            lock.lock();
            assertEquals(2L, home.info(key, "holds"));
            var interrupted = new Other<>(() -> locks.get(key).tryLock(20, TimeUnit.SECONDS));
            eventually("a waiter", () -> home.waiters(key).size() == 1);
            var waiting = new Other<>(() -> {
                RedisLock next = locks.lock(key);
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
        RedisLocks locks = locks(Client.Topology.CLUSTER, nodes.get(0).port, LONG);
        for (String key : List.of("a", "b", "c")) {
            TestServer home = nodes.get(home(nodes, key));
            home.run("LOCK.ACQUIRE " + key + " other EX 60");
            var waiting = new Other<>(() -> locks.lock(key).token());
            eventually("a waiter", () -> home.waiters(key).size() == 1);
            Object id = home.waiters(key).get(0).get("client-id");
            Thread.sleep(Client.TIMEOUT_MS * 3 / 2);
            assertEquals(id, home.waiters(key).get(0).get("client-id"), "it has left the queue");
            home.run("DEL " + key);
            waiting.get();
        }
    }

    @Test
    void inAClusterItFollowsASlotThatMoves() throws Exception {
        List<TestServer> nodes = cluster();
        RedisLocks locks = locks(Client.Topology.CLUSTER, nodes.get(1).port, LONG);
        locks.lock("k").unlock();
        int from = home(nodes, "k");
        int to = (from + 1) % 3;
        Object slot = nodes.get(0).run("CLUSTER KEYSLOT k");
        Object id = nodes.get(to).run("CLUSTER MYID");
        for (int node : List.of(to, from)) {
            nodes.get(node).run("CLUSTER SETSLOT " + slot + " NODE " + id);
        }
        RedisLock lock = locks.lock("k");
        assertEquals(lock.token(), nodes.get(to).info("k", "token"));
        var waiting = new Other<>(() -> locks.lock("k").token());
        eventually("a waiter", () -> nodes.get(to).waiters("k").size() == 1);
        lock.unlock();
        assertEquals(nodes.get(to).info("k", "token"), waiting.get());
    }
}
