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
 * @param prefix Begins the key of each lock.
 * @param lease How long others wait for a lock when this process has died.
 * @param silence How long this process may be suspended and keep its locks.
 * @param replyTimeout How long one reply of the server may take, connecting included.
 * @param probeKey Key of a lock that is acquired, shared, when the application starts and for its health.
 */
@ConfigurationProperties("redis-lock")
public record RedisLockProperties(
        @DefaultValue("true") boolean enabled,
        @Nullable String service,
        @DefaultValue("") String prefix,
        @DefaultValue("10s") Duration lease,
        @DefaultValue("30s") Duration silence,
        @DefaultValue("1s") Duration replyTimeout,
        @DefaultValue("lock:probe") String probeKey) {}
