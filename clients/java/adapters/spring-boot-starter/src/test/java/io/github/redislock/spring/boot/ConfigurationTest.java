package io.github.redislock.spring.boot;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Grant;
import io.github.redislock.LockObserver;
import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;

/** When there are locks, and with which settings. */
@ExtendWith(OutputCaptureExtension.class)
class ConfigurationTest extends Applications {
    private static final String WARNING = "No lock can be acquired now";

    @Test
    void anApplicationWithRedisHasLocks() {
        TestServer server = start();
        on(server).withPropertyValues("redis-lock.lease=4s", "redis-lock.prefix=app:", "redis-lock.service=till").run(context -> {
            context.getBean(Locks.class).get("lock:k").lock();
            assertThat((String) server.info("app:lock:k", "owner")).startsWith("till:");
            assertThat(server.info("app:lock:k", "lease-ms")).isEqualTo(4000L);
        });
        assertThat(server.info("app:lock:k", "owner")).as("released at the end").isNull();
    }

    @Test
    void itStartsWithoutAServerAndFindsItLater(CapturedOutput output) {
        TestServer server = start();
        server.order("kill");
        on(server).withPropertyValues("redis-lock.reply-timeout=1s").run(context -> {
            assertThat(context).hasNotFailed();
            within(LONG, "the warning", () -> output.toString().contains(WARNING + ": acquire lock:probe: 127.0.0.1:"));
            server.order("restart");
            context.getBean(Locks.class).get("lock:k").waiting(LONG).lock().release();
        });
    }

    /** Half a CPU makes the first connection slow: here the server does. */
    @Test
    void aSlowFirstConnectionIsNoWarning(CapturedOutput output) {
        TestServer server = start();
        server.order("pause");
        CompletableFuture.delayedExecutor(2500, TimeUnit.MILLISECONDS).execute(() -> server.order("resume"));
        on(server).withPropertyValues("redis-lock.reply-timeout=1s").run(context -> {
            context.getBean(Locks.class).get("lock:k").waiting(LONG).lock();
            eventually("the end of the probe", () -> server.calls("lock.release") > 0);
            assertThat(output).doesNotContain(WARNING);
        });
    }

    @Test
    void itTellsWhatItMayNotDo(CapturedOutput output) {
        TestServer server = start();
        server.run("ACL SETUSER default -lock.acquire");
        on(server).run(context -> {
            assertThat(context).hasNotFailed();
            eventually("the warning", () -> output.toString().contains(WARNING) && output.toString().contains("NOPERM"));
        });
    }

    @Test
    void thereAreNoneWhereTheyAreNotWantedOrThereIsNoRedis() {
        application("redis-lock.enabled=false").run(context -> assertThat(context).doesNotHaveBean(Locks.class));
        new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(RedisLockAutoConfiguration.class))
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean(Locks.class));
        two()
                .run(context -> assertThat(context).hasNotFailed().doesNotHaveBean(Locks.class));
    }

    private static ApplicationContextRunner two() {
        return application("spring.data.redis.repositories.enabled=false").withUserConfiguration(TwoFactories.class);
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoFactories {
        @Bean
        RedisConnectionFactory redisConnectionFactory() {
            return new JedisConnectionFactory();
        }

        @Bean
        RedisConnectionFactory another() {
            return new JedisConnectionFactory();
        }
    }

    @Test
    void beansOfTheApplicationComeFirst() {
        TestServer server = start();
        LockServer own = JedisServer.of("127.0.0.1", server.port);
        two().withBean(LockServer.class, () -> own)
                .run(context -> {
                    assertThat(context.getBean(LockServer.class)).isSameAs(own);
                    context.getBean(Locks.class).get("lock:k").lock().release();
                });
        Locks locks = Locks.of(JedisServer.of("127.0.0.1", server.port), "own");
        on(server).withBean(Locks.class, () -> locks).run(context ->
                assertThat(context.getBean(Locks.class)).isSameAs(locks));
    }

    private record Telling(List<String> told, String name) implements LockObserver {
        @Override
        public void released(String key, Duration held, @Nullable Throwable error) {
            told.add(name + " " + key);
        }
    }

    @Test
    void observersAreNotifiedOfAllButTheProbe() {
        TestServer server = start();
        List<String> told = new CopyOnWriteArrayList<>();
        on(server).withBean("one", LockObserver.class, () -> new Telling(told, "one"))
                .withBean("two", LockObserver.class, () -> new Telling(told, "two"))
                .run(context -> {
                    context.getBean(Locks.class).get("lock:k").lock().release();
                    eventually("the end of the probe", () -> server.calls("lock.release") == 2);
                });
        assertThat(told).containsExactlyInAnyOrder("one lock:k", "two lock:k");
    }

    @Test
    void oneClientLibraryIsEnough() {
        TestServer server = start();
        for (String missing : new String[] {"redis.clients.jedis", "io.lettuce"}) {
            on(server).withClassLoader(new FilteredClassLoader(missing)).run(context -> {
                try (Grant grant = context.getBean(Locks.class).get("lock:k").lock()) {
                    assertThat(grant.isHeld()).isTrue();
                }
            });
        }
    }

    /** A caller under synchronized pins the carrier of a virtual thread: the library's own threads must not need one. */
    @Test
    void threadsOfTheLocksAreNeverVirtual() {
        on(start()).withPropertyValues("spring.threads.virtual.enabled=true").run(context -> {
            context.getBean(Locks.class).get("lock:k").lock();
            assertThat(Thread.getAllStackTraces().keySet()) // virtual threads are not in it
                    .anyMatch(thread -> thread.getName().equals("redis-lock-session-shop"));
        });
    }
}
