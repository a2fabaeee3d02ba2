package io.github.redislock.spring.boot;

import io.github.redislock.LockObserver;
import io.github.redislock.Locks;
import io.github.redislock.spi.LockServer;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** {@link Locks} on the Redis of the application. The names are those of Spring Boot 3 and 4. */
@AutoConfiguration(afterName = {"org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration",
    "org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration"})
@ConditionalOnProperty(name = "redis-lock.enabled", matchIfMissing = true)
@EnableConfigurationProperties(RedisLockProperties.class)
public class RedisLockAutoConfiguration {
    /** By Lettuce, if the connection factory is one of Lettuce. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "io.lettuce.core.RedisClient")
    @ConditionalOnSingleCandidate(RedisConnectionFactory.class)
    @ConditionalOnBean(LettuceConnectionFactory.class)
    @ConditionalOnMissingBean(LockServer.class)
    static class ByLettuce {
        @Bean
        LettuceServers redisLockLettuce(LettuceConnectionFactory factory, RedisLockProperties properties) {
            return new LettuceServers(factory, properties.replyTimeout());
        }

        @Bean(destroyMethod = "") // the locks close it
        LockServer redisLockServer(LettuceServers lettuce) {
            return lettuce.server();
        }
    }

    /** By Jedis, if the connection factory is one of Jedis. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "redis.clients.jedis.JedisClientConfig")
    @ConditionalOnSingleCandidate(RedisConnectionFactory.class)
    @ConditionalOnBean(JedisConnectionFactory.class)
    @ConditionalOnMissingBean(LockServer.class)
    static class ByJedis {
        @Bean(destroyMethod = "")
        LockServer redisLockServer(JedisConnectionFactory factory) {
            return JedisServers.of(factory);
        }
    }

    /** Closed with the context, after the web server and the executors have stopped. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    @ConditionalOnBean(LockServer.class)
    Locks redisLocks(LockServer server, RedisLockProperties properties, Environment environment,
            ObjectProvider<LockObserver> observers) {
        String service = properties.service() != null ? properties.service()
                : environment.getProperty("spring.application.name", "spring");
        return Locks.builder(server).service(service).prefix(properties.prefix()).lease(properties.lease())
                .silence(properties.silence()).replyTimeout(properties.replyTimeout())
                .observer(new Observers(observers.orderedStream().toList(), properties.prefix() + properties.probeKey()))
                .build();
    }

    @Bean
    @ConditionalOnBean(Locks.class)
    LockProbe redisLockProbe(Locks locks, RedisLockProperties properties) {
        return new LockProbe(locks, properties);
    }
}
