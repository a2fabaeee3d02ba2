package io.github.redislock.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Grant;
import io.github.redislock.LockLostException;
import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** A shutdown takes no lock from work that is under way, and has an end. */
class ShutdownTest extends RealServers {

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @RestController
    static class Shop {
        final CountDownLatch entered = new CountDownLatch(1);
        final CountDownLatch leaving = new CountDownLatch(1);
        final AtomicReference<Throwable> failure = new AtomicReference<>();
        private final Locks locks;

        Shop(Locks locks) {
            this.locks = locks;
        }

        /** A web server that stops at once interrupts its threads; work with a database goes on all the same. */
        private boolean isLeaving() {
            try {
                return leaving.await(20, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                return false;
            }
        }

        @GetMapping("/pay")
        String pay() throws Throwable {
            try (Grant grant = locks.lock("lock:order").acquire()) {
                entered.countDown();
                while (!isLeaving()) {
                    grant.check();
                }
                try (Grant second = locks.lock("lock:another").acquire()) { // a request in flight may take locks
                    second.check();
                }
                grant.check();
                return "paid";
            } catch (Throwable e) {
                failure.set(e);
                throw e;
            }
        }
    }

    private ConfigurableApplicationContext shop(TestServer server, String client, String... more) {
        return closing(new SpringApplicationBuilder(Shop.class).web(WebApplicationType.SERVLET).properties(
                "server.port=0", "spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + server.port,
                "spring.data.redis.client-type=" + client, "redis-lock.reply-timeout=10s",
                "spring.jmx.enabled=false").properties(more).run());
    }

    private static CompletableFuture<HttpResponse<String>> request(ConfigurableApplicationContext shop) {
        String port = shop.getEnvironment().getProperty("local.server.port");
        return HttpClient.newHttpClient().sendAsync(
                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/pay")).build(),
                HttpResponse.BodyHandlers.ofString());
    }

    @ParameterizedTest
    @CsvSource({"graceful, lettuce", "graceful, jedis", "immediate, lettuce", "immediate, jedis"})
    void aRequestInFlightKeepsItsLockToItsEnd(String how, String client) throws Exception {
        TestServer server = server();
        ConfigurableApplicationContext context = shop(server, client, "server.shutdown=" + how);
        Shop shop = context.getBean(Shop.class);
        Locks locks = context.getBean(Locks.class);
        var answer = request(context);
        shop.entered.await();
        Object token = server.info("lock:order", "token");
        CountDownLatch stops = new CountDownLatch(1);
        context.addApplicationListener((ContextClosedEvent event) -> stops.countDown());
        var closing = inThread(() -> {
            context.close();
            return true;
        });
        stops.await();
        Thread.sleep(1500);
        assertThat(server.info("lock:order", "token")).isEqualTo(token);
        assertThat(closing.isDone()).isFalse();
        shop.leaving.countDown();
        assertThat(closing.get()).isTrue();
        assertThat(shop.failure.get()).isNull();
        if (how.equals("graceful")) {
            assertThat(answer.get().body()).isEqualTo("paid");
        }
        assertThat(locks.isClosed()).isTrue();
        assertThat(server.run("EXISTS lock:order lock:another")).isEqualTo(0L);
    }

    @ParameterizedTest
    @CsvSource({"10s, 4s", "1s, 30s"})
    void whatDoesNotEndIsReleasedInTheEnd(String drain, String phase) throws Exception {
        TestServer server = server();
        ConfigurableApplicationContext context = shop(server, "lettuce", "server.shutdown=immediate",
                "redis-lock.drain-timeout=" + drain, "spring.lifecycle.timeout-per-shutdown-phase=" + phase);
        Locks locks = context.getBean(Locks.class);
        Grant grant = locks.lock("lock:hung").acquire();
        CompletableFuture<LockLostException> lost = new CompletableFuture<>();
        grant.onLost(lost::complete);
        long begun = System.nanoTime();
        context.close();
        assertThat(Duration.ofNanos(System.nanoTime() - begun)).isBetween(Duration.ofMillis(900), Duration.ofSeconds(4));
        assertThat(lost.get()).hasMessageContaining("the locks are closed");
        assertThat(server.run("EXISTS lock:hung")).as("released, not left to its lease").isEqualTo(0L);
    }

    @Test
    void aServerThatHangsHoldsUpNoShutdownForLong() throws Exception {
        TestServer server = server();
        ConfigurableApplicationContext context = shop(server, "lettuce", "redis-lock.drain-timeout=500ms");
        context.getBean(Locks.class).lock("lock:k").acquire();
        server.order("pause");
        try {
            long begun = System.nanoTime();
            context.close();
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isLessThan(Duration.ofSeconds(12));
        } finally {
            server.order("resume");
        }
    }

    @Test
    void theEndOfAChildIsNotItsOwn() throws Exception {
        ConfigurableApplicationContext context = shop(server(), "lettuce");
        AnnotationConfigApplicationContext child = new AnnotationConfigApplicationContext();
        child.setParent(context);
        child.refresh();
        child.close();
        context.stop();
        context.start();
        context.getBean(Locks.class).lock("lock:k").acquire().release();
    }

    @Test
    void itIsBetweenTheWebServerAndTheConnectionFactory() {
        assertThat(LocksLifecycle.PHASE).isPositive().isLessThan(Integer.MAX_VALUE / 2);
    }
}
