package io.github.redislock.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** A shutdown takes no lock from a request that is under way, and has an end. */
class ShutdownTest extends Applications {
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @RestController
    static class Shop {
        final CountDownLatch entered = new CountDownLatch(1);
        final CountDownLatch leaving = new CountDownLatch(1);
        private final Locks locks;

        Shop(Locks locks) {
            this.locks = locks;
        }

        @GetMapping("/pay")
        String pay() throws InterruptedException {
            try (Grant grant = locks.get("lock:order").lock()) {
                entered.countDown();
                leaving.await();
                grant.check();
                locks.get("lock:another").lock().close();
                return "paid";
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    void aRequestInFlightKeepsItsLockToItsEnd(String client) throws Exception {
        TestServer server = start();
        var context = web(Shop.class, server, "spring.data.redis.client-type=" + client);
        Shop shop = context.getBean(Shop.class);
        var answer = HttpClient.newHttpClient().sendAsync(HttpRequest.newBuilder(URI.create(url(context, "/pay"))).build(),
                HttpResponse.BodyHandlers.ofString());
        shop.entered.await();
        CountDownLatch closes = new CountDownLatch(1);
        context.addApplicationListener((ContextClosedEvent event) -> closes.countDown());
        var closing = CompletableFuture.runAsync(context::close);
        closes.await();
        Thread.sleep(1000);
        assertThat(server.info("lock:order", "owner")).isNotNull();
        shop.leaving.countDown();
        assertThat(answer.get().body()).isEqualTo("paid");
        closing.get();
        assertThat(server.info("lock:order", "owner")).isNull();
    }

    @Test
    void aServerThatHangsHoldsUpNoShutdownForLong() {
        TestServer server = start();
        var context = web(Empty.class, server, "redis-lock.reply-timeout=1s");
        context.getBean(Locks.class).get("lock:k").lock();
        server.order("pause");
        long begun = System.nanoTime();
        context.close();
        assertThat(Duration.ofNanos(System.nanoTime() - begun)).isLessThan(Duration.ofSeconds(10));
        server.order("resume");
    }

    @ParameterizedTest
    @ValueSource(strings = {"lettuce", "jedis"})
    @ExtendWith(OutputCaptureExtension.class)
    void aStoppedContextKeepsItsLocksAndAClosedOneWarnsOfNothing(String client, CapturedOutput output) {
        var context = web(Empty.class, start(), "spring.data.redis.client-type=" + client);
        Grant grant = context.getBean(Locks.class).get("lock:k").lock();
        context.stop();
        grant.check();
        context.start();
        grant.release();
        context.close();
        assertThat(output.getAll()).doesNotContain("already closed");
    }
}
