package io.github.redislock.spring.boot;

import io.github.redislock.LockBusyException;
import io.github.redislock.LockDeadlockException;
import io.github.redislock.LockException;
import io.github.redislock.LockLostException;
import io.github.redislock.LockMisuseException;
import io.github.redislock.LockNotAloneException;
import io.github.redislock.LockObserver;
import io.github.redislock.LockRefusedException;
import io.github.redislock.LockUnavailableException;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Map;

/** Counts and times what happens to locks. Keys are no tags: there may be any number of them. */
public final class MicrometerObserver implements LockObserver {
    private static final Map<Class<? extends LockException>, String> OUTCOMES = Map.of(
            LockBusyException.class, "busy", LockLostException.class, "lost", LockDeadlockException.class, "deadlock",
            LockNotAloneException.class, "not-alone", LockRefusedException.class, "refused",
            LockUnavailableException.class, "unavailable", LockMisuseException.class, "misuse");

    private final MeterRegistry registry;

    /** Tells this registry. */
    public MicrometerObserver(MeterRegistry registry) {
        this.registry = registry;
    }

    @Override
    public void acquired(String key, Duration waited) {
        acquire("acquired").record(waited);
    }

    @Override
    public void refused(String key, Duration waited, Throwable why) {
        acquire(OUTCOMES.getOrDefault(why.getClass(), "cancelled")).record(waited);
    }

    private Timer acquire(String outcome) {
        return Timer.builder("redis.lock.acquire").description("How long calls for a lock took")
                .tag("outcome", outcome).register(registry);
    }

    @Override
    public void released(String key, Duration held) {
        hold("released").record(held);
    }

    @Override
    public void lost(String key, Duration held) {
        hold("lost").record(held);
    }

    private Timer hold(String end) {
        return Timer.builder("redis.lock.hold").description("How long locks were held")
                .tag("end", end).register(registry);
    }

    @Override
    public void keeperEnded(String node, Throwable why) {
        registry.counter("redis.lock.keeper.ended").increment();
    }
}
