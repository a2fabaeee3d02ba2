package io.github.redislock.spring.boot;

import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.ByteArrayCodec;
import java.io.IOException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * What a factory of Lettuce connects to, with its client, which is new each time that the factory is started. A cluster
 * is not asked before a lock is wanted: an application starts without Redis.
 */
final class LettuceFactoryServer implements LockServer {
    private final LettuceConnectionFactory factory;
    private final LockServer single;
    private @Nullable AbstractRedisClient client;
    private volatile @Nullable LockServer cluster;

    LettuceFactoryServer(LettuceConnectionFactory factory) {
        this.factory = factory;
        single = LettuceServer.connecting(() -> ((RedisClient) started()).connect(ByteArrayCodec.INSTANCE));
    }

    private AbstractRedisClient started() throws IOException {
        try {
            return factory.getRequiredNativeClient();
        } catch (IllegalStateException e) {
            throw new IOException("the connection factory is not started", e); // it may be started again
        }
    }

    private boolean isCluster() {
        return factory.isClusterAware();
    }

    @Override
    public @Nullable String node(String key) {
        LockServer now = cluster;
        return !isCluster() ? "" : now == null ? null : now.node(key);
    }

    @Override
    public void refresh(Duration limit) throws IOException {
        if (isCluster()) {
            cluster().refresh(limit);
        }
    }

    @Override
    public ServerConnection connect(String node, Duration limit) throws IOException {
        return (isCluster() ? cluster() : single).connect(node, limit);
    }

    private synchronized LockServer cluster() throws IOException {
        AbstractRedisClient now = started();
        LockServer known = cluster;
        if (known == null || client != now) {
            if (known != null) {
                known.close();
            }
            try {
                known = LettuceServer.of((RedisClusterClient) now);
            } catch (RuntimeException e) {
                throw new IOException("no node of the cluster answers: " + e.getMessage(), e);
            }
            client = now;
            cluster = known;
        }
        return known;
    }

    @Override
    public synchronized void close() {
        LockServer known = cluster;
        if (known != null) {
            known.close();
        }
    }
}
