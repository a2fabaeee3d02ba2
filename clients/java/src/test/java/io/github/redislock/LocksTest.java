package io.github.redislock;

import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** What the tests have in common: each runs with each client, and what they start ends with them. */
@ParameterizedClass
@EnumSource(value = Client.class, names = {"JEDIS", "LETTUCE"})
abstract class LocksTest {
    static final Duration LONG = Duration.ofSeconds(20);
    static final Duration SHORT = Duration.ofMillis(1000);

    private static final Set<Client> WARM = EnumSet.noneOf(Client.class);

    @Parameter
    Client client;

    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    <T extends AutoCloseable> T closing(T resource) {
        open.push(resource);
        return resource;
    }

    /** The first connection of a JVM takes its time: classes are loaded. */
    @BeforeEach
    void warmUp() throws Exception {
        synchronized (WARM) {
            if (WARM.add(client)) {
                int port = server().port;
                try (Locks locks = builder(Client.Topology.SINGLE, port).replyTimeout(Duration.ofSeconds(20)).build()) {
                    locks.lock("k").acquire().release();
                }
            }
        }
    }

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    /** Starts what ends with the test. */
    private List<TestServer> start(String what, Map<String, ?> how) {
        List<TestServer> servers = TestServers.start(what, how);
        closing(() -> servers.get(0).order("end"));
        return servers;
    }

    TestServer server() {
        return server(Map.of());
    }

    TestServer server(Map<String, String> config) {
        return start("server", Map.of("config", config)).get(0);
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

    Locks locks(int port) {
        return locks(port, LONG);
    }

    Locks locks(int port, Duration lease) {
        return locks(Client.Topology.SINGLE, port, lease);
    }

    Locks locks(Client.Topology topology, int port, Duration lease) {
        return closing(builder(topology, port).lease(lease).build());
    }

    Locks.Builder builder(Client.Topology topology, int port) {
        return builder(topology, port, null);
    }

    Locks.Builder builder(Client.Topology topology, int port, String user) {
        return Locks.builder(lockServer(topology, port, user)).service("tests");
    }

    LockServer lockServer(int port) {
        return lockServer(Client.Topology.SINGLE, port, null);
    }

    private LockServer lockServer(Client.Topology topology, int port, String user) {
        Client.Connected connected = client.connect(topology, port, user);
        closing(connected.application());
        return connected.server();
    }

    /** A lock of threads that is taken. */
    static ThreadLock locked(Locks locks, String key) {
        ThreadLock lock = locks.lock(key).asLock();
        lock.lock();
        return lock;
    }

    static long millisSince(long begun) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
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
