package io.github.redislock.micrometer;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.redislock.Grant;
import io.github.redislock.LockLostException;
import io.github.redislock.Locks;
import io.github.redislock.TestBed;
import io.github.redislock.TestServer;
import io.github.redislock.jedis.JedisServer;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Statistic;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Each metric, read from a registry. */
class MicrometerObserverTest extends TestBed {
    private static final String HISTOGRAM = ".histogram"; // the buckets of a timer

    private final TestServer server = start();
    private final MeterRegistry registry = new SimpleMeterRegistry();

    private Locks locks(MicrometerObserver observer) {
        return Locks.builder(JedisServer.of("127.0.0.1", server.port)).observer(observer).build();
    }

    /** What is counted, by name and tags; of a timer, how often it was recorded. */
    private Map<String, Integer> read() {
        Map<String, Integer> read = new TreeMap<>();
        for (Meter meter : registry.getMeters()) {
            String tags = meter.getId().getTags().stream().map(Tag::getValue).collect(Collectors.joining(" "));
            meter.measure().forEach(one -> {
                boolean isCount = one.getStatistic() == Statistic.COUNT || one.getStatistic() == Statistic.VALUE;
                if (isCount && !meter.getId().getName().endsWith(HISTOGRAM)) {
                    read.put((meter.getId().getName() + " " + tags).strip(), (int) one.getValue());
                }
            });
        }
        return read;
    }

    @Test
    void metricsCountAndTimeWhatHappens() throws Exception {
        String place = "127.0.0.1:" + server.port;
        var observer = new MicrometerObserver(registry, key -> Tags.of("kind", key.split(":")[1]));
        try (Locks locks = locks(observer)) {
            Grant order = locks.get("lock:order:1").lock();
            assertThat(locks.get("lock:order:1").tryLock()).isEmpty();
            var waiting = CompletableFuture.supplyAsync(() -> locks.get("lock:order:1").lock());
            eventually("it waits", () -> server.waiters("lock:order:1").size() == 1);
            Thread.sleep(300);
            order.release();
            Grant held = waiting.get();
            assertThat(registry.get("redis_lock.client.hold.duration").timer().totalTime(TimeUnit.MILLISECONDS))
                    .isGreaterThan(290);
            Grant lost = locks.get("lock:stock:1").lock();
            server.run("DEL lock:stock:1");
            eventually("the loss", () -> read().containsKey("redis_lock.client.losses stock"));
            assertThatThrownBy(lost::release).isInstanceOf(LockLostException.class);
            server.order("kill");
            eventually("the cut", () -> read().containsKey("redis_lock.client.session.disconnects " + place));
            assertThat(read()).containsEntry("redis_lock.client.session.detached " + place, 1);
            server.order("restart");
            eventually("the next connection", () -> read().get("redis_lock.client.session.detached " + place) == 0);
            eventually("the loss by the restart", () -> read().containsKey("redis_lock.client.losses order"));
            assertThatThrownBy(held::release).isInstanceOf(LockLostException.class);
        }
        assertThat(read()).containsOnly(
                Map.entry("redis_lock.client.acquire.duration order done", 2),
                Map.entry("redis_lock.client.acquire.duration order busy", 1),
                Map.entry("redis_lock.client.acquire.duration stock done", 1),
                Map.entry("redis_lock.client.hold.duration order done", 1),
                Map.entry("redis_lock.client.hold.duration order lost", 1),
                Map.entry("redis_lock.client.hold.duration stock lost", 1),
                Map.entry("redis_lock.client.losses order", 1),
                Map.entry("redis_lock.client.losses stock", 1),
                Map.entry("redis_lock.client.session.disconnects " + place, 1),
                Map.entry("redis_lock.client.session.detached " + place, 0));
    }

    @Test
    void noMetricNamesKeys() {
        Locks locks = locks(new MicrometerObserver(registry));
        locks.get("lock:a").lock().release();
        Thread.currentThread().interrupt();
        assertThatThrownBy(() -> locks.get("lock:b").tryLock(Duration.ofSeconds(9))).isInstanceOf(InterruptedException.class);
        locks.close();
        assertThat(read()).containsOnly(
                Map.entry("redis_lock.client.acquire.duration done", 1),
                Map.entry("redis_lock.client.acquire.duration cancelled", 1),
                Map.entry("redis_lock.client.hold.duration done", 1));
    }
}
