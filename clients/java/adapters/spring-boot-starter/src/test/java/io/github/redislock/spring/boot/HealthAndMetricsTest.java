package io.github.redislock.spring.boot;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.TestServer;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.autoconfigure.health.HealthContributorAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.health.HealthEndpointAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.metrics.MetricsAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.metrics.export.simple.SimpleMetricsExportAutoConfiguration;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthEndpoint;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** What operators see. */
class HealthAndMetricsTest extends RealServers {
    private static ApplicationContextRunner watched(TestServer server) {
        return on(server).withConfiguration(AutoConfigurations.of(RedisLockHealthAutoConfiguration.class,
                RedisLockMetricsAutoConfiguration.class, HealthContributorAutoConfiguration.class,
                HealthEndpointAutoConfiguration.class, MetricsAutoConfiguration.class,
                CompositeMeterRegistryAutoConfiguration.class, SimpleMetricsExportAutoConfiguration.class));
    }

    @Test
    void healthIsThatOfTheLocks() {
        TestServer server = server();
        watched(server).run(context -> {
            HealthEndpoint endpoint = context.getBean(HealthEndpoint.class);
            HealthIndicator locks = context.getBean("redisLockHealthIndicator", HealthIndicator.class);
            context.getBean(Locks.class).lock("lock:k").acquire();
            assertThat(endpoint.healthForPath("redisLock").getStatus()).isEqualTo(Status.UP);
            assertThat(locks.health().getDetails()).containsEntry("held", 1);
            server.order("kill");
            assertThat(locks.health().getStatus()).isEqualTo(Status.DOWN);
            server.order("restart");
            eventually("it is up again", () -> locks.health().getStatus() == Status.UP);
        });
    }

    @Test
    void healthIsBoundedWhereTheServerHangs() {
        TestServer server = server();
        watched(server).withPropertyValues("redis-lock.reply-timeout=1s").run(context -> {
            HealthIndicator locks = context.getBean("redisLockHealthIndicator", HealthIndicator.class);
            server.order("pause");
            try {
                for (int n = 0; n < 2; n++) {
                    long begun = System.nanoTime();
                    assertThat(locks.health().getStatus()).isEqualTo(Status.DOWN);
                    assertThat(Duration.ofNanos(System.nanoTime() - begun)).isLessThan(Duration.ofSeconds(3));
                }
            } finally {
                server.order("resume");
            }
            eventually("it is up again", () -> locks.health().getStatus() == Status.UP);
        });
    }

    @Test
    void healthTellsWhatIsWrongAndMayBeTurnedOff() {
        TestServer server = server();
        server.run("ACL SETUSER default -lock.info");
        watched(server).run(context -> {
            Health health = context.getBean("redisLockHealthIndicator", HealthIndicator.class).health();
            assertThat(health.getStatus()).isEqualTo(Status.DOWN);
            assertThat(health.getDetails().get("error").toString()).contains("NOPERM");
        });
        watched(server).withPropertyValues("management.health.redislock.enabled=false")
                .run(context -> assertThat(context).doesNotHaveBean("redisLockHealthIndicator"));
    }

    @Test
    void metricsCountAndTimeWhatHappens() {
        TestServer server = server();
        watched(server).run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            Locks locks = context.getBean(Locks.class);
            Grant kept = locks.lock("lock:a").acquire();
            Grant other = locks.lock("lock:b").acquire();
            assertThat(locks.lock("lock:a").tryAcquire()).isEmpty();
            assertThat(meters.get("redis.lock.held").gauge().value()).isEqualTo(2);
            assertThat(meters.get("redis.lock.acquire").tag("outcome", "acquired").timer().count()).isEqualTo(2);
            assertThat(meters.get("redis.lock.acquire").tag("outcome", "busy").timer().count()).isEqualTo(1);
            Thread.sleep(300);
            kept.release();
            assertThat(meters.get("redis.lock.hold").tag("end", "released").timer().totalTime(
                    java.util.concurrent.TimeUnit.MILLISECONDS)).isGreaterThan(290);
            server.run("DEL lock:b");
            eventually("the loss is told", () -> meters.find("redis.lock.hold").tag("end", "lost").timer() != null);
            assertThat(other.isHeld()).isFalse();
            eventually("it is counted", () -> meters.get("redis.lock.hold").tag("end", "lost").timer().count() == 1);
            assertThat(meters.get("redis.lock.held").gauge().value()).isEqualTo(0);
            eventually("the end of the keeper is counted",
                    () -> meters.get("redis.lock.keeper.ended").counter().count() == 1);
        });
    }
}
