package redislock;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.TimeoutOptions;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Optional;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * {@link RedisLocks} as a bean on Spring Data Redis with Lettuce. Inject RedisLocks where a lock is
 * needed. When the context is closed, web servers, listeners and the beans that use the locks end
 * first, then the locks are released, then their connections are closed.
 */
@Configuration
public class SpringLocks {
    @Bean(destroyMethod = "close")
    RedisLocks redisLocks(LettuceLockServer server, @Value("${spring.application.name:application}") String service,
            @Value("${redis-lock.lease-ms:30000}") long leaseMs) {
        return new RedisLocks(server, service, Duration.ofMillis(leaseMs));
    }

    /**
     * Connects as the application does, but without reconnecting, and for itself: the application's
     * factory is stopped before any bean is destroyed, and so before the locks are released.
     */
    @Bean(destroyMethod = "close")
    LettuceLockServer lockServer(LettuceConnectionFactory application) {
        RedisConfiguration where = application.isClusterAware() ? application.getClusterConfiguration()
                : application.isRedisSentinelAware() ? application.getSentinelConfiguration()
                : application.getStandaloneConfiguration();
        if (where instanceof RedisStandaloneConfiguration one && (one.getPort() != application.getPort()
                || !one.getHostName().equals(application.getHostName()))) {
            throw new IllegalArgumentException("make the connection factory with a RedisStandaloneConfiguration");
        }
        LettuceClientConfiguration how = application.getClientConfiguration();
        ClientOptions options = how.getClientOptions()
                .orElseGet(() -> ClientOptions.builder().timeoutOptions(TimeoutOptions.enabled()).build())
                .mutate().autoReconnect(false).build();
        var connections = new LettuceConnectionFactory(where, (LettuceClientConfiguration) Proxy.newProxyInstance(
                SpringLocks.class.getClassLoader(), new Class<?>[] {LettuceClientConfiguration.class},
                (proxy, method, arguments) -> method.getName().equals("getClientOptions") ? Optional.of(options)
                        : method.invoke(how, arguments)));
        connections.setShareNativeConnection(false);
        connections.afterPropertiesSet();
        connections.start();
        return new LettuceLockServer(connections.getRequiredNativeClient(), connections::destroy);
    }
}
