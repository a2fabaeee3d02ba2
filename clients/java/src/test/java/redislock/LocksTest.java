package redislock;

import static redislock.TestServer.within;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** What the tests have in common: each runs with each client, and what they start ends with them. */
@ParameterizedClass
@EnumSource(Client.class)
abstract class LocksTest {
    static final Duration LONG = Duration.ofSeconds(20);
    static final Duration SHORT = Duration.ofMillis(900);

    @Parameter
    Client client;

    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    <T extends AutoCloseable> T closing(T resource) {
        open.push(resource);
        return resource;
    }

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    TestServer server() throws Exception {
        return closing(TestServer.start());
    }

    List<TestServer> cluster() throws Exception {
        int[] slots = {0, 5461, 10923, 16384};
        List<TestServer> nodes = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            TestServer node = closing(TestServer.start("--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"));
            node.run("CLUSTER ADDSLOTSRANGE " + slots[i] + " " + (slots[i + 1] - 1));
            node.run("CLUSTER SET-CONFIG-EPOCH " + (i + 1));
            for (TestServer other : nodes) {
                node.run("CLUSTER MEET 127.0.0.1 " + other.port);
            }
            nodes.add(node);
        }
        within(Duration.ofSeconds(30), "the cluster is whole", () -> nodes.stream().allMatch(node -> {
            String info = (String) node.run("CLUSTER INFO");
            return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3");
        }));
        return nodes;
    }

    static int home(List<TestServer> nodes, String key) {
        long slot = (Long) nodes.get(0).run("CLUSTER KEYSLOT " + key);
        return slot < 5461 ? 0 : slot < 10923 ? 1 : 2;
    }

    RedisLocks locks(int port, Duration lease) {
        return locks(Client.Topology.SINGLE, port, lease);
    }

    RedisLocks locks(Client.Topology topology, int port, Duration lease) {
        Client.Connected connected = client.connect(topology, port, lease);
        closing(connected.application());
        return connected.locks();
    }

    /** Work in a thread, and so with an owner, of its own. */
    static final class Other<T> extends FutureTask<T> {
        final Thread thread = new Thread(this);

        Other(Callable<T> work) {
            super(work);
            thread.setDaemon(true);
            thread.start();
        }
    }
}
