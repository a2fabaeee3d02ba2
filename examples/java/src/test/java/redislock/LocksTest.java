package redislock;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
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
