package io.github.redislock.spring.boot;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.data.redis.connection.RedisStaticMasterReplicaConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** Each way to name a Redis to Spring, with each of its clients, and the locks are there. */
class TopologiesTest extends Applications {
    private static final String KEY = "lock:orders:42";

    @TempDir
    private Path folder;

    private static ApplicationContextRunner client(String client, String... properties) {
        return application(properties).withPropertyValues("spring.data.redis.client-type=" + client);
    }

    /** Acquires a lock, with another that waits for it, while all connections are closed. */
    private static void holds(ApplicationContextRunner application, List<TestServer> nodes, TestServer home) {
        application.run(context -> {
            Locks locks = context.getBean(Locks.class);
            Grant grant = locks.get(KEY).lock();
            var waiting = CompletableFuture.supplyAsync(() -> locks.get(KEY).waiting(LONG).lock());
            eventually("it waits", () -> home.waiters(KEY).size() == 1);
            assertThat(home.info(KEY, "token")).isEqualTo(grant.token());
            nodes.forEach(node -> node.run("CLIENT KILL TYPE normal SKIPME yes"));
            grant.check();
            grant.release();
            waiting.get().release();
        });
        assertThat(home.info(KEY, "owner")).isNull();
        nodes.forEach(node -> assertThat((List<?>) node.run("ACL LOG")).isEmpty());
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void oneServerWithUserAndDatabase(String client) {
        TestServer server = start();
        server.addUser("application");
        server.run("SELECT 2");
        holds(client(client, "spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + server.port,
                "spring.data.redis.username=application", "spring.data.redis.password=secret",
                "spring.data.redis.database=2", "spring.data.redis.client-name=orders",
                "spring.data.redis.timeout=1s"), List.of(server), server);
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void bySentinelWithUsersOfBoth(String client) {
        List<TestServer> all = start("sentinels", Map.of());
        TestServer primary = all.get(0);
        TestServer replica = all.get(1);
        primary.addUser("application");
        replica.addUser("application");
        all.get(2).addUser("discovery");
        primary.run("SELECT 2");
        holds(client(client, "spring.data.redis.sentinel.master=lock",
                "spring.data.redis.sentinel.nodes=127.0.0.1:" + all.get(2).port, "spring.data.redis.database=2",
                "spring.data.redis.username=application", "spring.data.redis.password=secret",
                "spring.data.redis.sentinel.username=discovery", "spring.data.redis.sentinel.password=secret"),
                List.of(primary, replica), primary);
    }

    /** By Lettuce alone: Spring's factory of Jedis has no such configuration. */
    @Test
    void aStaticListOfPrimaryAndReplica() {
        List<TestServer> all = start("sentinels", Map.of());
        var list = new RedisStaticMasterReplicaConfiguration("127.0.0.1", all.get(1).port);
        list.addNode("127.0.0.1", all.get(0).port);
        holds(application().withBean(LettuceConnectionFactory.class, () -> new LettuceConnectionFactory(list)),
                all.subList(0, 2), all.get(0));
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aClusterWithAUser(String client) {
        List<TestServer> nodes = start("cluster", Map.of());
        nodes.forEach(node -> node.addUser("application"));
        long slot = (Long) nodes.get(0).run("CLUSTER KEYSLOT " + KEY);
        holds(client(client, "spring.data.redis.cluster.nodes=127.0.0.1:" + nodes.get(1).port,
                "spring.data.redis.username=application", "spring.data.redis.password=secret"),
                nodes, nodes.get(slot < 5461 ? 0 : slot < 10922 ? 1 : 2));
    }

    /** By Lettuce alone: Spring's factory of Jedis itself does not start without its cluster. */
    @Test
    void aClusterThatIsNotThereYet() {
        List<TestServer> nodes = start("cluster", Map.of("primaries", 1));
        nodes.get(0).order("kill");
        client("lettuce", "spring.data.redis.cluster.nodes=127.0.0.1:" + nodes.get(0).port).run(context -> {
            assertThat(context).hasNotFailed();
            nodes.get(0).order("restart");
            context.getBean(Locks.class).get(KEY).waiting(LONG).lock().release();
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void tlsByAnSslBundle(String client) throws Exception {
        Path key = folder.resolve("key.pem");
        Path certificate = folder.resolve("certificate.pem");
        assertThat(new ProcessBuilder("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-keyout", key.toString(), "-out", certificate.toString(), "-subj", "/CN=redis", "-addext",
                "subjectAltName=IP:127.0.0.1").start().waitFor()).isZero();
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        TestServer server = start("server", Map.of("config", Map.of("tls-port", String.valueOf(port), "tls-auth-clients", "no",
                "tls-cert-file", certificate.toString(), "tls-key-file", key.toString()))).get(0);
        holds(client(client, "spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + port,
                "spring.data.redis.ssl.bundle=redis",
                "spring.ssl.bundle.pem.redis.truststore.certificate=file:" + certificate), List.of(), server);
    }
}
