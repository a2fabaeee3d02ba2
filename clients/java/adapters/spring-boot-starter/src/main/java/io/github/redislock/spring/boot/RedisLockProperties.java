package io.github.redislock.spring.boot;

import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Settings of the locks.
 *
 * @param enabled Whether there are locks.
 * @param service Name of the service in the names of owners; spring.application.name by default.
 * @param lease How long others wait when this process has died.
 * @param keep How long this process may stand still and keep its locks.
 * @param replyTimeout How long one reply may take, connecting included.
 * @param releaseTimeout How long a release may take.
 * @param closeTimeout How long it may take at the end to release what is held still.
 * @param drainTimeout How long a shutdown waits for work under locks, within spring.lifecycle.timeout-per-shutdown-phase.
 * @param probeKey Key of a lock that nobody takes, which is looked at when the application starts and for its health.
 */
@ConfigurationProperties("redis-lock")
public record RedisLockProperties(
        @DefaultValue("true") boolean enabled,
        @Nullable String service,
        @DefaultValue("10s") Duration lease,
        @DefaultValue("30s") Duration keep,
        @DefaultValue("1s") Duration replyTimeout,
        @DefaultValue("2s") Duration releaseTimeout,
        @DefaultValue("2s") Duration closeTimeout,
        @DefaultValue("10s") Duration drainTimeout,
        @DefaultValue("lock:probe") String probeKey) {}
