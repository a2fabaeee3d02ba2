package io.github.redislock.spring.boot;

import io.github.redislock.LockObserver;
import io.github.redislock.Locks;
import io.github.redislock.spi.LockServer;
import java.time.Duration;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;
import org.springframework.boot.autoconfigure.thread.Threading;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.core.task.VirtualThreadTaskExecutor;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** {@link Locks} on the Redis of the application. */
@AutoConfiguration(after = RedisAutoConfiguration.class)
@ConditionalOnProperty(name = "redis-lock.enabled", matchIfMissing = true)
@EnableConfigurationProperties(RedisLockProperties.class)
public class RedisLockAutoConfiguration {
    private static final Duration SPARE = Duration.ofSeconds(1);

    /** By Lettuce, where the connection factory is one of Lettuce. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "io.lettuce.core.RedisClient")
    @ConditionalOnSingleCandidate(RedisConnectionFactory.class)
    @ConditionalOnBean(LettuceConnectionFactory.class)
    @ConditionalOnMissingBean(LockServer.class)
    static class ByLettuce {
        @Bean(destroyMethod = "") // the locks close it
        LockServer redisLockServer(LettuceConnectionFactory factory) {
            return new LettuceFactoryServer(factory);
        }
    }

    /** By Jedis, where the connection factory is one of Jedis. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "redis.clients.jedis.JedisClientConfig")
    @ConditionalOnSingleCandidate(RedisConnectionFactory.class)
    @ConditionalOnBean(JedisConnectionFactory.class)
    @ConditionalOnMissingBean(LockServer.class)
    static class ByJedis {
        @Bean(destroyMethod = "")
        LockServer redisLockServer(JedisConnectionFactory factory) {
            return JedisFactoryServers.of(factory);
        }
    }

    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    @ConditionalOnBean(LockServer.class)
    Locks redisLocks(LockServer server, RedisLockProperties properties, Environment environment,
            ObjectProvider<LockObserver> observers, ObjectProvider<LocksCustomizer> customizers) {
        String service = properties.service() != null ? properties.service()
                : environment.getProperty("spring.application.name", "spring");
        Locks.Builder builder = Locks.builder(server).service(service)
                .lease(properties.lease()).keep(properties.keep()).replyTimeout(properties.replyTimeout())
                .releaseTimeout(properties.releaseTimeout()).closeTimeout(properties.closeTimeout())
                .observer(new Observers(observers.orderedStream().toList()));
        if (Threading.VIRTUAL.isActive(environment)) {
            builder.threads(new VirtualThreadTaskExecutor("redis-lock-").getVirtualThreadFactory());
        }
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        return builder.build();
    }

    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnBean(Locks.class)
    LocksLifecycle redisLocksLifecycle(Locks locks, RedisLockProperties properties, Environment environment) {
        Duration phase = environment.getProperty("spring.lifecycle.timeout-per-shutdown-phase", Duration.class,
                Duration.ofSeconds(30));
        Duration most = phase.minus(properties.closeTimeout()).minus(SPARE);
        Duration drain = most.compareTo(properties.drainTimeout()) < 0 ? most : properties.drainTimeout();
        return new LocksLifecycle(locks, properties.probeKey(), drain.isNegative() ? Duration.ZERO : drain);
    }
}
