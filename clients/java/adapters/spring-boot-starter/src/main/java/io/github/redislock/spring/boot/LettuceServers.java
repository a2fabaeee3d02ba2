package io.github.redislock.spring.boot;

import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerNode;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.StaticCredentialsProvider;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.masterreplica.MasterReplica;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.framework.AopProxyUtils;
import org.springframework.beans.DirectFieldAccessor;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisPassword;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisSocketConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.RedisStaticMasterReplicaConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceConverters;
import org.springframework.util.StringUtils;

/**
 * What a factory of Lettuce connects to. Its client exists only while the factory is started, and has no time limit for one
 * call: so this is a client of its own, with the same settings.
 */
final class LettuceServers implements AutoCloseable {
    private final LettuceConnectionFactory factory;
    private final LettuceClientConfiguration settings;
    private final Duration replyTimeout;
    private final RedisClient client;

    LettuceServers(LettuceConnectionFactory factory, Duration replyTimeout) {
        this.factory = factory;
        this.replyTimeout = replyTimeout;
        settings = factory.getClientConfiguration();
        client = settings.getClientResources().map(RedisClient::create).orElseGet(RedisClient::create);
        client.setOptions(settings.getClientOptions().orElseGet(ClientOptions::create).mutate()
                .autoReconnect(false).timeoutOptions(TimeoutOptions.create()).build());
    }

    LockServer server() {
        RedisClusterConfiguration cluster = factory.getClusterConfiguration();
        if (cluster != null) {
            List<String> nodes = cluster.getClusterNodes().stream().map(node -> node.getHost() + ":" + node.getPort()).toList();
            return new ClusterServer(nodes, SlotHash::getSlot, address -> node(address, cluster), () -> { });
        }
        RedisSentinelConfiguration sentinel = factory.getSentinelConfiguration();
        if (sentinel != null) {
            return LettuceServer.of(client, uri(sentinel));
        }
        RedisSocketConfiguration socket = (RedisSocketConfiguration) factory.getSocketConfiguration();
        if (socket != null) {
            RedisURI uri = new RedisURI();
            uri.setSocket(socket.getSocket());
            return LettuceServer.of(client, set(uri, socket));
        }
        if (configuration() instanceof RedisStaticMasterReplicaConfiguration replicas) {
            List<RedisURI> all = replicas.getNodes().stream()
                    .map(node -> uri(node.getHostName(), node.getPort(), replicas)).toList();
            return LettuceServer.connecting("redis", () -> MasterReplica.connect(client, ByteArrayCodec.INSTANCE, all));
        }
        RedisStandaloneConfiguration single = Objects.requireNonNull(factory.getStandaloneConfiguration());
        return LettuceServer.of(client, uri(single.getHostName(), single.getPort(), single));
    }

    /** A factory does not tell a static list of primary and replicas from one server. */
    private @Nullable Object configuration() {
        Object target = AopProxyUtils.getSingletonTarget(factory);
        return new DirectFieldAccessor(target == null ? factory : target).getPropertyValue("configuration");
    }

    private ServerNode node(String address, RedisClusterConfiguration cluster) {
        int colon = address.lastIndexOf(':');
        RedisURI uri = uri(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)), cluster);
        return Objects.requireNonNull(LettuceServer.of(client, uri).find("", 0).node());
    }

    private RedisURI uri(String host, int port, RedisConfiguration configuration) {
        return set(RedisURI.create(host, port), configuration);
    }

    private RedisURI uri(RedisSentinelConfiguration sentinel) {
        RedisURI uri = LettuceConverters.sentinelConfigurationToRedisURI(sentinel);
        uri.getSentinels().forEach(this::set);
        settings.getRedisCredentialsProviderFactory().ifPresent(credentials -> uri.getSentinels()
                .forEach(one -> one.setCredentialsProvider(credentials.createSentinelCredentialsProvider(sentinel))));
        return set(uri, sentinel);
    }

    private RedisURI set(RedisURI uri, RedisConfiguration configuration) {
        set(uri);
        uri.setDatabase(RedisConfiguration.getDatabaseOrElse(configuration, () -> 0));
        String user = RedisConfiguration.getUsernameOrElse(configuration, () -> null);
        RedisPassword password = RedisConfiguration.getPasswordOrElse(configuration, RedisPassword::none);
        if (StringUtils.hasText(user) || password.isPresent()) {
            uri.setCredentialsProvider(new StaticCredentialsProvider(StringUtils.hasText(user) ? user : null,
                    password.toOptional().orElse(new char[0])));
        }
        settings.getRedisCredentialsProviderFactory().ifPresent(credentials ->
                uri.setCredentialsProvider(credentials.createCredentialsProvider(configuration)));
        return uri;
    }

    private void set(RedisURI uri) {
        settings.getClientName().ifPresent(uri::setClientName);
        uri.setSsl(settings.isUseSsl());
        uri.setVerifyPeer(settings.getVerifyMode());
        uri.setStartTls(settings.isStartTls());
        uri.setTimeout(replyTimeout);
    }

    @Override
    public void close() {
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }
}
