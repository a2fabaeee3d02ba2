package io.github.redislock.shedlock;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.TestServer;
import io.github.redislock.TestServers;
import java.time.Duration;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** ShedLock's own tests. */
class ProviderTest extends AbstractExtensibleLockProviderIntegrationTest {
    private static TestServer server;
    private static Locks locks;

    @BeforeAll
    static void start() {
        server = TestServers.start();
        locks = Locks.builder(JedisServer.of("127.0.0.1", server.port)).service("jobs")
                .replyTimeout(Duration.ofSeconds(10)).build(); // on a busy machine
    }

    @AfterAll
    static void end() {
        locks.close();
        server.order("end");
    }

    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return new RedisLockProvider(locks);
    }

    @Override
    protected void assertLocked(String name) {
        assertThat(server.run("EXISTS job-lock:default:" + name)).isEqualTo(1L);
    }

    @Override
    protected void assertUnlocked(String name) {
        assertThat(server.run("EXISTS job-lock:default:" + name)).isEqualTo(0L);
    }
}
