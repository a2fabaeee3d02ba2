package io.github.redislock.spring.boot;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import io.micrometer.core.instrument.MeterRegistry;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;

/** What operators see. */
class HealthAndMetricsTest extends Applications {
    private final HttpClient client = HttpClient.newHttpClient();

    private String health(ConfigurableApplicationContext context) {
        try {
            var request = HttpRequest.newBuilder(URI.create(url(context, "/actuator/health/redisLock"))).build();
            return client.send(request, HttpResponse.BodyHandlers.ofString()).body();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void healthIsThatOfTheLocks() throws Exception {
        TestServer server = start();
        var context = web(Empty.class, server, "redis-lock.reply-timeout=1s", "management.endpoint.health.show-details=always");
        context.getBean(Locks.class).get("lock:probe").lock();
        eventually("it is up, whoever holds the lock", () -> health(context).contains("\"UP\""));
        server.order("pause");
        for (int n = 0; n < 2; n++) {
            long begun = System.nanoTime();
            assertThat(health(context)).contains("\"DOWN\"", "127.0.0.1:" + server.port);
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isLessThan(Duration.ofSeconds(4));
        }
        server.order("resume");
        eventually("it is up again", () -> health(context).contains("\"UP\""));
        server.run("ACL SETUSER default -lock.acquire");
        assertThat(health(context)).contains("\"DOWN\"", "NOPERM");
    }

    @Test
    void healthMayBeTurnedOff() throws Exception {
        assertThat(web(Empty.class, start(), "management.health.redislock.enabled=false").containsBean("redisLockHealthIndicator"))
                .isFalse();
    }

    @Test
    void metricsAreThoseOfTheLocks() {
        var context = web(Empty.class, start());
        context.getBean(Locks.class).get("lock:k").lock().release();
        MeterRegistry meters = context.getBean(MeterRegistry.class);
        assertThat(meters.get("redis_lock.client.acquire.duration").tag("outcome", "done").timer().count()).isEqualTo(1);
        assertThat(meters.get("redis_lock.client.hold.duration").tag("outcome", "done").timer().count()).isEqualTo(1);
    }
}
