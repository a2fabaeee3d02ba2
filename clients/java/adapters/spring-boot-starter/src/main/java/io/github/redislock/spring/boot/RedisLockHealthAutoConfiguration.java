package io.github.redislock.spring.boot;

import io.github.redislock.Locks;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.autoconfigure.health.HealthContributorAutoConfiguration;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The health {@code redisLock}: whether locks can be taken. */
@AutoConfiguration(after = RedisLockAutoConfiguration.class, before = HealthContributorAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
public class RedisLockHealthAutoConfiguration {
    /** Apart, since its annotation can only be read where the actuator is. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnBean(Locks.class)
    @ConditionalOnEnabledHealthIndicator("redislock")
    static class OfLocks {
        @Bean
        @ConditionalOnMissingBean(name = {"redisLockHealthIndicator", "redisLockHealthContributor"})
        HealthIndicator redisLockHealthIndicator(Locks locks, RedisLockProperties properties) {
            return new RedisLockHealthIndicator(locks, properties.probeKey());
        }
    }
}
