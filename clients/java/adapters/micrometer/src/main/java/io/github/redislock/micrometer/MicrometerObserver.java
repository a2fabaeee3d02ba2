package io.github.redislock.micrometer;

import io.github.redislock.LockBusyException;
import io.github.redislock.LockDeadlockException;
import io.github.redislock.LockLostException;
import io.github.redislock.LockMisuseException;
import io.github.redislock.LockNotAloneException;
import io.github.redislock.LockObserver;
import io.github.redislock.LockRefusedException;
import io.github.redislock.LockUnavailableException;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.DoubleStream;
import org.jspecify.annotations.Nullable;

/** Measures locks. docs/monitoring/README.md lists the metrics, which all clients have. */
public final class MicrometerObserver implements LockObserver {
    private static final Map<Class<?>, String> OUTCOMES = Map.of(
            LockBusyException.class, "busy", LockLostException.class, "lost", LockDeadlockException.class, "deadlock",
            LockNotAloneException.class, "not-alone", LockRefusedException.class, "refused",
            LockUnavailableException.class, "unavailable", LockMisuseException.class, "misuse");
    private static final Duration[] BUCKETS = DoubleStream.of(.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000,
            10_000, 30_000, 60_000, 300_000).mapToObj(millis -> Duration.ofNanos((long) (millis * 1e6))).toArray(Duration[]::new);

    private final MeterRegistry registry;
    private final Function<String, ? extends Iterable<Tag>> tags;
    private final Map<String, AtomicInteger> down = new ConcurrentHashMap<>();

    /** Measures into this registry. No metric names keys. */
    public MicrometerObserver(MeterRegistry registry) {
        this(registry, key -> Tags.empty());
    }

    /** The same, with tags made of the key of a lock. Make few different ones: each is a series of its own. */
    public MicrometerObserver(MeterRegistry registry, Function<String, ? extends Iterable<Tag>> tags) {
        this.registry = registry;
        this.tags = tags;
    }

    private void record(String name, String description, String key, Duration time, @Nullable Throwable error) {
        String outcome = error == null ? "done" : OUTCOMES.getOrDefault(error.getClass(), "cancelled");
        Timer.builder(name).description(description).serviceLevelObjectives(BUCKETS)
                .tags(tags.apply(key)).tag("outcome", outcome).register(registry).record(time);
    }

    @Override
    public void acquired(String key, Duration took, @Nullable Throwable error) {
        record("redis_lock.client.acquire.duration", "How long acquires took, their wait included, by outcome.",
                key, took, error);
    }

    @Override
    public void released(String key, Duration held, @Nullable Throwable error) {
        record("redis_lock.client.hold.duration", "How long locks were held until their release, by its outcome.",
                key, held, error);
    }

    @Override
    public void lost(String key, LockLostException error) {
        Counter.builder("redis_lock.client.losses").description("Locks that ended before their holder released them.")
                .tags(tags.apply(key)).register(registry).increment();
    }

    @Override
    public void connection(String server, @Nullable Throwable error) {
        Tags of = Tags.of("server", server);
        AtomicInteger gauge = down.computeIfAbsent(server, it ->
                registry.gauge("redis_lock.client.session.detached", of, new AtomicInteger()));
        if (error == null) {
            gauge.decrementAndGet();
        } else {
            gauge.incrementAndGet();
            Counter.builder("redis_lock.client.session.disconnects")
                    .description("Connections of sessions that were lost.").tags(of).register(registry).increment();
        }
    }
}
