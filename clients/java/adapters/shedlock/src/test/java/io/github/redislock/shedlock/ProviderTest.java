package io.github.redislock.shedlock;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.testbed.TestServer;
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
        server = TestServer.start();
        locks = Locks.builder(JedisServer.of("127.0.0.1", server.port)).service("jobs")
                .replyTimeout(Duration.ofSeconds(10)).build(); // on a busy machine
    }

    @AfterAll
    static void end() {
        locks.close();
        server.close();
    }

    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return new RedisLockProvider(locks);
    }

    @Override
    protected void assertLocked(String name) {
        assertThat(server.has("job-lock:default:" + name)).isTrue();
    }

    @Override
    protected void assertUnlocked(String name) {
        assertThat(server.has("job-lock:default:" + name)).isFalse();
    }
}
