package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static io.github.redislock.TestServer.eventually;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The users of docs/operations.md: what Jedis and Lettuce send by themselves is allowed to them. */
class UsersTest extends LocksTest {
    private static final String KEY = "lock:orders:42";

    /** Also when all connections are closed meanwhile. {@code home} is the node that has the lock. */
    private void holdWaitRenewRelease(Client.Topology topology, int port, List<TestServer> nodes, TestServer home)
            throws Exception {
        Locks locks = closing(builder(topology, port, "application").lease(Duration.ofMillis(1500)).build());
        ThreadLock lock = locked(locks, KEY);
        var waiting = new Other<>(() -> {
            locked(locks, KEY).unlock();
            return true;
        });
        eventually("a waiter", () -> home.waiters(KEY).size() == 1);
        int renewals = home.calls("lock.renew");
        for (TestServer node : nodes) {
            node.run("CLIENT KILL TYPE normal SKIPME yes");
        }
        eventually("it is kept again", () -> home.calls("lock.renew") > renewals);
        eventually("the waiter is back", () -> home.waiters(KEY).size() == 1);
        lock.check();
        lock.unlock();
        assertTrue(waiting.get());
        assertNull(home.info(KEY, "token"));
        assertTrue(home.calls("ping") > 0);
        for (TestServer node : nodes) {
            assertEquals(List.of(), node.run("ACL LOG"));
        }
    }

    @Test
    void onOneServerInAnotherDatabase() throws Exception {
        TestServer server = server();
        server.addUser("application");
        server.run("SELECT 2");
        holdWaitRenewRelease(Client.Topology.SINGLE, server.port, List.of(server), server);
    }

    @Test
    void inACluster() throws Exception {
        List<TestServer> nodes = cluster();
        for (TestServer node : nodes) {
            node.addUser("application");
        }
        holdWaitRenewRelease(Client.Topology.CLUSTER, nodes.get(0).port, nodes, nodes.get(home(nodes, KEY)));
    }

    @Test
    void bySentinel() throws Exception {
        List<TestServer> all = sentinels();
        TestServer primary = all.get(0);
        TestServer replica = all.get(1);
        TestServer sentinel = all.get(2);
        primary.addUser("application");
        replica.addUser("application");
        sentinel.addUser("discovery");
        primary.run("SELECT 2");
        holdWaitRenewRelease(Client.Topology.SENTINEL, sentinel.port, List.of(primary, replica), primary);
        assertEquals(List.of(), sentinel.run("ACL LOG"));
    }
}
