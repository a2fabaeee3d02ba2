package io.github.redislock;

import static io.github.redislock.TestServer.within;

import io.github.redislock.jedis.JedisServer;
import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** What the tests of a lock on five servers have in common. They wait more than they work. */
@Execution(ExecutionMode.CONCURRENT)
abstract class QuorumServersTest extends LocksTest {
    static final Duration LEASE = Duration.ofSeconds(10);

    List<TestServer> five() {
        return five(Map.of());
    }

    List<TestServer> five(Map<String, String> config) {
        List<TestServer> all = new ArrayList<>();
        for (int n = 0; n < 5; n++) {
            all.add(server(config));
        }
        return all;
    }

    List<TestServer> proxies(List<TestServer> servers) {
        return servers.stream().map(this::proxy).toList();
    }

    Locks quorum(List<TestServer> servers) {
        return closing(quorumBuilder(servers).build());
    }

    Locks.Builder quorumBuilder(List<TestServer> servers) {
        return Locks.quorum(lockServers(servers)).service("tests").lease(LEASE);
    }

    List<LockServer> lockServers(List<TestServer> servers) {
        if (client == Client.JEDIS) {
            return servers.stream().map(server -> JedisServer.of("127.0.0.1", server.port)).toList();
        }
        RedisClient redis = RedisClient.create();
        closing(() -> redis.shutdown(0, 1, TimeUnit.SECONDS));
        return servers.stream().map(server -> LettuceServer.of(redis, RedisURI.create("127.0.0.1", server.port))).toList();
    }

    /** The owner and the token at each of these servers that has granted the lock. */
    static List<String> grants(List<TestServer> servers, String key) {
        return servers.stream().map(server -> grant(server, key)).filter(Objects::nonNull).toList();
    }

    private static String grant(TestServer server, String key) {
        List<?> info = (List<?>) server.run("LOCK.INFO " + key);
        return info == null ? null : info.get(1) + " " + info.get(3);
    }

    /** How many of these servers have this grant; -1 where one has another. */
    static int standing(List<TestServer> servers, Grant grant) {
        List<String> all = grants(servers, grant.key());
        return all.stream().allMatch((grant.owner() + " " + grant.token())::equals) ? all.size() : -1;
    }

    /** By releases: the leases would take longer. */
    static void free(List<TestServer> servers, String key) throws InterruptedException {
        within(Duration.ofSeconds(6), key + " is free", () -> grants(servers, key).isEmpty());
    }

    /** A lock that all these servers have granted: an attempt goes on without those that come late. */
    static Grant hold(List<TestServer> servers, RedisLock lock) throws InterruptedException {
        for (int run = 0; run < 20; run++) {
            Grant grant = lock.waiting(LONG).acquire();
            for (int look = 0; look < 40; look++) {
                if (standing(servers, grant) == servers.size()) {
                    return grant;
                }
                Thread.sleep(5);
            }
            grant.release();
        }
        throw new AssertionError("the servers never had it all together");
    }

    static void order(List<TestServer> servers, String what) {
        servers.forEach(server -> server.order(what));
    }

    /** Until the end of the test at most. */
    void hang(List<TestServer> servers) {
        order(servers, "pause");
        closing(() -> order(servers, "resume"));
    }

    static long millis(Step work) throws Exception {
        long begun = System.nanoTime();
        work.run();
        return millisSince(begun);
    }

    /** Work that may throw. */
    interface Step {
        void run() throws Exception;
    }
}
