package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/** Clusters, and users of docs/operations/users.md. The common trial has Sentinels. */
class TopologiesTest extends Bed {
    private static void releaseOrLost(Grant grant) {
        try {
            grant.release();
        } catch (LockLostException e) {
            // It was granted by the old primary, and not replicated.
        }
    }

    /** Each node has its session; a failover moves the locks and waits of its slots to the new primary. */
    @ParameterizedTest
    @EnumSource(mode = Mode.EXCLUDE, names = "LETTUCE_FACTORY")
    void aCluster(Client client) throws Exception {
        List<TestServer> nodes = start("cluster", Map.of("replicas", 1));
        Locks locks = closing(Locks.of(connect(client, Client.Topology.CLUSTER, nodes.get(0).port, null), "test"));
        Locks others = closing(Locks.of(connect(client, Client.Topology.CLUSTER, nodes.get(0).port, null), "test"));
        Map<String, Grant> grants = new HashMap<>();
        List<FutureTask<Grant>> all = new ArrayList<>();
        for (int n = 0; n < 12; n++) {
            String key = "k" + n;
            grants.put(key, locks.get(key).lock());
            all.add(meanwhile(() -> others.get(key).lock()));
        }
        assertEquals(3, nodes.stream().filter(node -> !node.sessions().isEmpty()).count());
        for (TestServer node : nodes.subList(0, 3)) {
            eventually("in line", () -> node.sessions().stream().allMatch(session ->
                    !session.get("waiting").equals(0L) || !session.get("grants").equals(0L)));
        }
        nodes.get(3).order("fail-over");
        grants.values().forEach(TopologiesTest::releaseOrLost);
        for (FutureTask<Grant> one : all) {
            releaseOrLost(one.get());
        }
    }

    /** What the user's settings say holds for all connections: the user, the database, the name. */
    @ParameterizedTest
    @EnumSource(mode = Mode.EXCLUDE, names = "LETTUCE_FACTORY")
    void aUserInAnotherDatabase(Client client) throws Exception {
        TestServer server = start();
        server.addUser("application");
        server.run("SELECT 2");
        Locks locks = closing(Locks.builder(connect(client, Client.Topology.SINGLE, server.port, "application"))
                .service("test").lease(Duration.ofSeconds(1)).build());
        Grant grant = locks.get("lock:k").lock();
        FutureTask<Grant> waits = meanwhile(() -> locks.get("lock:k").lock());
        waiting(server, "lock:k", 1);
        server.run("CLIENT KILL TYPE normal SKIPME yes");
        server.run("SELECT 2");
        grant.check();
        grant.release();
        waits.get().release();
        assertTrue(((String) server.run("CLIENT LIST")).contains("name=orders"));
        assertEquals(List.of(), server.run("ACL LOG"));
    }
}
