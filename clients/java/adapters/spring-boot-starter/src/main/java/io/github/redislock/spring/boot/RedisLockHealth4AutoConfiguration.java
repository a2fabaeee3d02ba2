package io.github.redislock.spring.boot;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The health {@code redisLock} in Spring Boot 4: whether locks can be acquired. */
@AutoConfiguration(after = RedisLockAutoConfiguration.class,
        beforeName = "org.springframework.boot.health.autoconfigure.contributor.HealthContributorAutoConfiguration")
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
public class RedisLockHealth4AutoConfiguration {
    /** Apart, because its annotation can only be read where the actuator is. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnBean(LockProbe.class)
    @ConditionalOnEnabledHealthIndicator("redislock")
    static class OfLocks {
        @Bean
        @ConditionalOnMissingBean(name = {"redisLockHealthIndicator", "redisLockHealthContributor"})
        HealthIndicator redisLockHealthIndicator(LockProbe probe) {
            return new AbstractHealthIndicator("No lock can be acquired") {
                @Override
                protected void doHealthCheck(Health.Builder health) {
                    probe.check();
                    health.up();
                }
            };
        }
    }
}
