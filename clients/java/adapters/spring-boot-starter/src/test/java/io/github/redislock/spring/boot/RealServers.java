package io.github.redislock.spring.boot;

import io.github.redislock.TestServer;
import io.github.redislock.TestServers;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterEach;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.context.LifecycleAutoConfiguration;

import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** Servers that end with the test, and applications on them. */
abstract class RealServers {
    static final Duration LONG = Duration.ofSeconds(20);

    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    @AfterEach
    void end() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    <T extends AutoCloseable> T closing(T resource) {
        open.push(resource);
        return resource;
    }

    List<TestServer> start(String what, Map<String, ?> how) {
        List<TestServer> servers = TestServers.start(what, how);
        closing(() -> servers.get(0).order("end"));
        return servers;
    }

    TestServer server() {
        return start("server", Map.of()).get(0);
    }

    /** An application with the auto-configurations that concern Redis, in a JVM that is warm or slow. */
    static ApplicationContextRunner application(String... properties) {
        return new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LifecycleAutoConfiguration.class, SslAutoConfiguration.class, RedisAutoConfiguration.class,
                        RedisLockAutoConfiguration.class))
                .withPropertyValues("spring.application.name=shop", "redis-lock.reply-timeout=10s")
                .withPropertyValues(properties);
    }

    static ApplicationContextRunner on(TestServer server) {
        return application("spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + server.port);
    }

    static <T> FutureTask<T> inThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }
}
