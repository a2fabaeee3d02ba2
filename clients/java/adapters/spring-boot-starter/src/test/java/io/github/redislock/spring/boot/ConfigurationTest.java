package io.github.redislock.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.redislock.Grant;
import io.github.redislock.LockMisuseException;
import io.github.redislock.LockObserver;
import io.github.redislock.Locks;
import io.github.redislock.TestReadme;
import io.github.redislock.TestServer;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.RedisStaticMasterReplicaConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** When there are locks, and with which settings. */
@ExtendWith(OutputCaptureExtension.class)
class ConfigurationTest extends RealServers {
    @Test
    void anApplicationWithRedisHasLocks() {
        TestServer server = server();
        on(server).withPropertyValues("redis-lock.lease=4s", "redis-lock.keep=7s").run(context -> {
            Grant grant = context.getBean(Locks.class).lock("lock:k").acquire();
            assertThat((String) server.info("lock:k", "owner")).startsWith("shop:");
            assertThat(server.info("lock:k", "lease-ms")).isEqualTo(4000L);
            assertThat((List<Object>) ((List<List<Object>>) server.run("LOCK.HOLDERS lock:k")).get(0)).contains(7000L);
            grant.release();
        });
        on(server).withPropertyValues("redis-lock.service=till", "redis-lock.drain-timeout=100ms").run(context -> {
            context.getBean(Locks.class).lock("lock:k").acquire();
            assertThat((String) server.info("lock:k", "owner")).startsWith("till:");
        });
        assertThat(server.run("EXISTS lock:k")).as("released at the end").isEqualTo(0L);
    }

    @Test
    void itStartsWithoutAServerAndFindsItLater(CapturedOutput output) {
        TestServer server = server();
        server.order("kill");
        on(server).withPropertyValues("redis-lock.reply-timeout=2s").run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(output).contains("No lock can be taken now: lock:probe");
            server.order("restart");
            context.getBean(Locks.class).lock("lock:k").waiting(LONG).acquire().release();
        });
    }

    @Test
    void itTellsWhatItMayNotDo(CapturedOutput output) {
        TestServer server = server();
        server.run("ACL SETUSER default -lock.info");
        on(server).run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(output).contains("No lock can be taken now: lock:probe: NOPERM");
        });
    }

    @Test
    void thereAreNoneWhereTheyAreNotWantedOrThereIsNoRedis() {
        application("redis-lock.enabled=false").run(context -> assertThat(context).doesNotHaveBean(Locks.class));
        new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(RedisLockAutoConfiguration.class))
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean(Locks.class));
        application().withUserConfiguration(TwoFactories.class)
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean(Locks.class));
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoFactories {
        @Bean
        LettuceConnectionFactory redisConnectionFactory() {
            return new LettuceConnectionFactory("127.0.0.1", 1);
        }

        @Bean
        LettuceConnectionFactory another() {
            return new LettuceConnectionFactory("127.0.0.1", 1);
        }
    }

    /** Of what it does not know it never makes another server, such as the one of this machine. */
    @Test
    void aConfigurationThatItDoesNotKnowIsToldByEachCall() {
        var replicas = new RedisStaticMasterReplicaConfiguration("127.0.0.1", server().port);
        application().withBean(LettuceConnectionFactory.class, () -> new LettuceConnectionFactory(replicas))
                .run(context -> assertThatThrownBy(() -> context.getBean(Locks.class).lock("lock:k").acquire())
                        .isInstanceOf(LockMisuseException.class).hasMessageContaining("RedisURI"));
    }

    @Test
    void beansOfTheApplicationComeFirst() {
        TestServer server = server();
        LockServer own = JedisServer.of("127.0.0.1", server.port);
        application().withUserConfiguration(TwoFactories.class).withBean(LockServer.class, () -> own)
                .run(context -> {
                    assertThat(context.getBean(LockServer.class)).isSameAs(own);
                    context.getBean(Locks.class).lock("lock:k").acquire().release();
                });
        Locks locks = Locks.of(JedisServer.of("127.0.0.1", server.port), "own");
        on(server).withBean(Locks.class, () -> locks).run(context ->
                assertThat(context.getBean(Locks.class)).isSameAs(locks));
        assertThat(locks.isClosed()).isTrue();
    }

    @Test
    void observersAndCustomizersAreCalled() {
        TestServer server = server();
        List<String> told = new CopyOnWriteArrayList<>();
        on(server).withBean("one", LockObserver.class, () -> new Telling(told, "one"))
                .withBean("two", LockObserver.class, () -> new Telling(told, "two"))
                .withBean(LocksCustomizer.class, () -> builder -> builder.service("customized"))
                .run(context -> {
                    context.getBean(Locks.class).lock("lock:k").acquire().release();
                    assertThat(told).containsExactlyInAnyOrder("one lock:k", "two lock:k");
                    context.getBean(Locks.class).lock("lock:k").acquire();
                    assertThat((String) server.info("lock:k", "owner")).startsWith("customized:");
                    context.getBean(Locks.class).forceUnlock("lock:k");
                });
    }

    private record Telling(List<String> told, String name) implements LockObserver {
        @Override
        public void released(String key, Duration held) {
            told.add(name + " " + key);
        }
    }

    @Test
    void itNeedsNeitherActuatorNorMicrometerNorTheOtherClient() {
        TestServer server = server();
        for (String missing : new String[] {"io.micrometer", "org.springframework.boot.actuate", "redis.clients.jedis"}) {
            on(server).withConfiguration(AutoConfigurations.of(RedisLockHealthAutoConfiguration.class,
                    RedisLockMetricsAutoConfiguration.class)).withClassLoader(new FilteredClassLoader(missing))
                    .run(context -> context.getBean(Locks.class).lock("lock:k").acquire().release());
        }
        on(server).withClassLoader(new FilteredClassLoader("io.lettuce"))
                .run(context -> context.getBean(Locks.class).lock("lock:k").acquire().release());
    }

    @Test
    void theFirstScreenOfTheReadmeRuns() throws Exception {
        TestReadme readme = new TestReadme();
        readme.namesItsArtifact();
        TestServer server = server();
        List<String> properties = new ArrayList<>(List.of("--server.port=0", "--redis-lock.reply-timeout=10s"));
        readme.first("properties").replace("6379", String.valueOf(server.port)).lines()
                .forEach(line -> properties.add("--" + line));
        Class<?> shop = readme.compile("shop.Shop", server.port);
        Thread.currentThread().setContextClassLoader(shop.getClassLoader());
        try (var context = SpringApplication.run(shop, properties.toArray(String[]::new))) {
            String port = context.getEnvironment().getProperty("local.server.port");
            var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/orders/42/pay"))
                    .POST(HttpRequest.BodyPublishers.noBody()).build();
            var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            assertThat(answer.body()).matches("paid, fenced with [0-9]{16}");
        } finally {
            Thread.currentThread().setContextClassLoader(getClass().getClassLoader());
        }
    }
}
