package redislock;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
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

    /** Starts what ends with the test. */
    private List<TestServer> start(String what, Map<String, ?> how) {
        List<TestServer> servers = Testbed.servers(Testbed.order(what, how));
        closing(() -> servers.get(0).order("end"));
        return servers;
    }

    TestServer server() {
        return start("server", Map.of()).get(0);
    }

    TestServer proxy(TestServer server) {
        return start("proxy", Map.of("port", server.port)).get(0);
    }

    /** Three nodes, with a third of the slots each. */
    List<TestServer> cluster() {
        return start("cluster", Map.of());
    }

    /** A primary, its replica, and a Sentinel that watches over them. */
    List<TestServer> sentinels() {
        return start("sentinels", Map.of());
    }

    static int home(List<TestServer> nodes, String key) {
        long slot = (Long) nodes.get(0).run("CLUSTER KEYSLOT " + key);
        return slot < 5461 ? 0 : slot < 10922 ? 1 : 2;
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
