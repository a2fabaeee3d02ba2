package io.github.redislock.spring.boot;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Grant;
import io.github.redislock.LockException;
import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** Each way to name a Redis to Spring, with each of its clients, and the locks are there. */
class TopologiesTest extends RealServers {
    private static final String KEY = "lock:orders:42";

    private static ApplicationContextRunner client(String client, ApplicationContextRunner application) {
        return application.withPropertyValues("spring.data.redis.client-type=" + client);
    }

    /** Takes a lock, with another that waits for it, while all connections are closed. */
    private static void holds(ApplicationContextRunner application, List<TestServer> nodes, TestServer home) {
        application.run(context -> {
            Locks locks = context.getBean(Locks.class);
            assertThat(context.getBean(RedisConnectionFactory.class)).isInstanceOf(
                    "jedis".equals(context.getEnvironment().getProperty("spring.data.redis.client-type"))
                            ? JedisConnectionFactory.class : LettuceConnectionFactory.class);
            Grant grant = locks.lock(KEY).acquire();
            var waiting = inThread(() -> locks.lock(KEY).waiting(LONG).acquire());
            eventually("it waits", () -> home.waiters(KEY).size() == 1);
            assertThat(home.info(KEY, "token")).isEqualTo(grant.token());
            for (TestServer node : nodes) {
                node.run("CLIENT KILL TYPE normal SKIPME yes");
            }
            eventually("it waits again", () -> home.waiters(KEY).size() == 1);
            grant.check();
            grant.release();
            waiting.get().release();
        });
        assertThat(home.run("EXISTS " + KEY)).isEqualTo(0L);
        for (TestServer node : nodes) {
            assertThat((List<?>) node.run("ACL LOG")).isEmpty();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void oneServerWithUserAndDatabase(String client) {
        TestServer server = server();
        server.addUser("application");
        server.run("SELECT 2");
        holds(client(client, application("spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + server.port,
                "spring.data.redis.username=application", "spring.data.redis.password=secret",
                "spring.data.redis.database=2", "spring.data.redis.client-name=orders",
                "spring.data.redis.timeout=1s")), List.of(server), server);
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void oneServerByUrl(String client) {
        TestServer server = server();
        server.addUser("application");
        server.run("SELECT 3");
        holds(client(client, application(
                "spring.data.redis.url=redis://application:secret@127.0.0.1:" + server.port + "/3",
                "spring.data.redis.database=3")), // Spring Boot 3.2 does not look for it in the address
                List.of(server), server);
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void bySentinelWithUsersOfBoth(String client) {
        List<TestServer> all = start("sentinels", Map.of());
        TestServer primary = all.get(0);
        TestServer replica = all.get(1);
        TestServer sentinel = all.get(2);
        primary.addUser("application");
        replica.addUser("application");
        sentinel.addUser("discovery");
        primary.run("SELECT 2");
        ApplicationContextRunner application = client(client, application("spring.data.redis.sentinel.master=lock",
                "spring.data.redis.sentinel.nodes=127.0.0.1:" + sentinel.port, "spring.data.redis.database=2",
                "spring.data.redis.username=application", "spring.data.redis.password=secret",
                "spring.data.redis.sentinel.username=discovery", "spring.data.redis.sentinel.password=secret"));
        holds(application, List.of(primary, replica), primary);
        application.run(context -> {
            Locks locks = context.getBean(Locks.class);
            replica.order("fail-over");
            eventually("locks are taken at the new primary", () -> {
                replica.run("SELECT 2");
                try (Grant grant = locks.lock(KEY).waiting(LONG).acquire()) {
                    return Long.valueOf(grant.token()).equals(replica.info(KEY, "token"));
                } catch (LockException e) {
                    return false; // taken at the old primary, of which the Sentinel told still
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aClusterWithAUser(String client) {
        List<TestServer> nodes = start("cluster", Map.of());
        for (TestServer node : nodes) {
            node.addUser("application");
        }
        long slot = (Long) nodes.get(0).run("CLUSTER KEYSLOT " + KEY);
        holds(client(client, application("spring.data.redis.cluster.nodes=127.0.0.1:" + nodes.get(1).port,
                "spring.data.redis.username=application", "spring.data.redis.password=secret")),
                nodes, nodes.get(slot < 5461 ? 0 : slot < 10922 ? 1 : 2));
    }

    /** By Lettuce: Spring's factory of Jedis itself does not start without its cluster. */
    @Test
    void aClusterThatIsNotThereYet() {
        List<TestServer> nodes = start("cluster", Map.of("primaries", 1));
        nodes.get(0).order("kill");
        client("lettuce", application("spring.data.redis.cluster.nodes=127.0.0.1:" + nodes.get(0).port,
                "redis-lock.reply-timeout=2s")).run(context -> {
                    assertThat(context).hasNotFailed();
                    nodes.get(0).order("restart");
                    context.getBean(Locks.class).lock(KEY).waiting(LONG).acquire().release();
                });
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void tlsByAnSslBundle(String client) throws Exception {
        TlsServer tls = TlsServer.start(this);
        holds(client(client, application("spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + tls.port(),
                "spring.data.redis.ssl.bundle=redis",
                "spring.ssl.bundle.pem.redis.truststore.certificate=file:" + tls.certificate())),
                List.of(), tls.server());
        assertThat(tls.server().stat("total_connections_received")).isNotEqualTo("0");
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aStoppedContextStartsAgain(String client) {
        TestServer server = server();
        client(client, on(server)).run(context -> {
            Locks locks = context.getBean(Locks.class);
            locks.lock(KEY).acquire().release();
            context.getSourceApplicationContext().stop();
            assertThat(locks.isClosed()).isFalse();
            context.getSourceApplicationContext().start();
            locks.lock(KEY).waiting(LONG).acquire().release();
        });
    }
}
