package io.github.redislock;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;

/** Servers and clients that end with a test, for the tests of the client and of its adapters. */
public abstract class TestBed {
    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    @AfterEach
    final void end() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    /** Closes it after the test, before what was opened earlier. */
    protected final <T extends AutoCloseable> T closing(T one) {
        open.push(one);
        return one;
    }

    /** Starts a server, a cluster or Sentinels. */
    protected final List<TestServer> start(String what, Map<String, ?> how) {
        List<TestServer> servers = TestServers.start(what, how);
        closing(() -> servers.get(0).order("end"));
        return servers;
    }

    /** Starts one server. */
    protected final TestServer start() {
        return start("server", Map.of()).get(0);
    }
}
