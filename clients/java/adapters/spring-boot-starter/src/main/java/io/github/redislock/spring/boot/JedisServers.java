package io.github.redislock.spring.boot;

import io.github.redislock.jedis.JedisServer;
import io.github.redislock.spi.LockServer;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisNode;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisClientConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.util.StringUtils;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** What a factory of Jedis connects to, with the configuration that it gives its own connections. */
final class JedisServers {
    private JedisServers() {}

    static LockServer of(JedisConnectionFactory factory) {
        JedisClientConfiguration client = factory.getClientConfiguration();
        RedisClusterConfiguration cluster = factory.getClusterConfiguration();
        if (cluster != null) {
            return JedisServer.cluster(addresses(cluster.getClusterNodes()),
                    config(client, 0, cluster.getUsername(), cluster.getPassword()));
        }
        RedisSentinelConfiguration sentinel = factory.getSentinelConfiguration();
        if (sentinel != null) {
            String master = Objects.requireNonNull(sentinel.getMaster()).getName();
            return JedisServer.sentinel(Objects.requireNonNull(master), addresses(sentinel.getSentinels()),
                    config(client, sentinel.getDatabase(), sentinel.getUsername(), sentinel.getPassword()),
                    config(client, 0, sentinel.getSentinelUsername(), sentinel.getSentinelPassword()));
        }
        RedisStandaloneConfiguration single = Objects.requireNonNull(factory.getStandaloneConfiguration());
        return JedisServer.of(new HostAndPort(single.getHostName(), single.getPort()),
                config(client, single.getDatabase(), single.getUsername(), single.getPassword()));
    }

    private static List<HostAndPort> addresses(Collection<RedisNode> nodes) {
        return nodes.stream()
                .map(node -> new HostAndPort(Objects.requireNonNull(node.getHost()), Objects.requireNonNull(node.getPort())))
                .toList();
    }

    private static JedisClientConfig config(JedisClientConfiguration client, int database, @Nullable String user,
            RedisPassword password) {
        DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder().database(database)
                .connectionTimeoutMillis(Math.toIntExact(client.getConnectTimeout().toMillis()))
                .socketTimeoutMillis(Math.toIntExact(client.getReadTimeout().toMillis()));
        client.getClientName().ifPresent(config::clientName);
        if (StringUtils.hasText(user)) {
            config.user(user);
        }
        password.toOptional().map(String::new).ifPresent(config::password);
        if (client.isUseSsl()) {
            config.ssl(true);
            client.getSslSocketFactory().ifPresent(config::sslSocketFactory);
            client.getSslParameters().ifPresent(config::sslParameters);
            client.getHostnameVerifier().ifPresent(config::hostnameVerifier);
        }
        client.getCustomizer().ifPresent(customizer -> customizer.customize(config));
        return config.build();
    }
}
