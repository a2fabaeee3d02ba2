package io.github.redislock.spring.boot;

import io.github.redislock.Locks;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** Metrics of the locks, by Micrometer. */
@AutoConfiguration(before = RedisLockAutoConfiguration.class,
        afterName = "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration")
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean(MeterRegistry.class)
public class RedisLockMetricsAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    MicrometerObserver redisLockMicrometerObserver(MeterRegistry registry) {
        return new MicrometerObserver(registry);
    }

    @Bean
    MeterBinder redisLockHeldMetrics(org.springframework.beans.factory.ObjectProvider<Locks> locks) {
        return registry -> locks.ifAvailable(all -> Gauge.builder("redis.lock.held", all, Locks::held)
                .description("Locks and permits that are held").register(registry));
    }
}
