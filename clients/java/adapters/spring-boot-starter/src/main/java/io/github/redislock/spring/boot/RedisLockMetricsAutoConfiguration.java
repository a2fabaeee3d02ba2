package io.github.redislock.spring.boot;

import io.github.redislock.micrometer.MicrometerObserver;
import io.micrometer.core.instrument.MeterRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** Metrics of the locks, by Micrometer. The names are those of Spring Boot 3 and 4. */
@AutoConfiguration(before = RedisLockAutoConfiguration.class, afterName = {
    "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration",
    "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"})
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean(MeterRegistry.class)
public class RedisLockMetricsAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    MicrometerObserver redisLockMicrometerObserver(MeterRegistry registry) {
        return new MicrometerObserver(registry);
    }
}
