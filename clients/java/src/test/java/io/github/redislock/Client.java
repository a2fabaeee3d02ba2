package io.github.redislock;

import io.github.redislock.jedis.JedisServer;
import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.ByteArrayCodec;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;

/** The client libraries that the tests are run with, each as an application sets it up. */
enum Client {
    JEDIS {
        @Override
        Connected connect(Topology topology, int port, String user) {
            var config = config(user).database(user != null && topology != Topology.CLUSTER ? 2 : 0).build();
            HostAndPort address = new HostAndPort("127.0.0.1", port);
            LockServer server = topology == Topology.CLUSTER ? JedisServer.cluster(Set.of(address), config)
                    : JedisServer.of(address, config);
            return new Connected(server, () -> { });
        }

        private DefaultJedisClientConfig.Builder config(String user) {
            var config = DefaultJedisClientConfig.builder().timeoutMillis(60_000); // the locks have their own
            return user == null ? config : config.user(user).password("secret").clientName("orders");
        }
    },
    LETTUCE {
        @Override
        Connected connect(Topology topology, int port, String user) {
            RedisURI.Builder uri = RedisURI.builder().withHost("127.0.0.1").withPort(port);
            if (user != null) {
                uri.withAuthentication(user, "secret").withClientName("orders");
                uri.withDatabase(topology == Topology.CLUSTER ? 0 : 2);
            }
            if (topology == Topology.CLUSTER) {
                RedisClusterClient client = RedisClusterClient.create(uri.build());
                return new Connected(LettuceServer.of(client), client::shutdown);
            }
            RedisClient client = RedisClient.create();
            return new Connected(LettuceServer.of(client, uri.build()),
                    () -> client.shutdown(0, 1, java.util.concurrent.TimeUnit.SECONDS));
        }
    },
    /** A factory of the user's on a client that reconnects: as with a RedisConnectionFactory of Spring. */
    LETTUCE_FACTORY {
        @Override
        Connected connect(Topology topology, int port, String user) {
            RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", port));
            return new Connected(LettuceServer.connecting("127.0.0.1:" + port, () -> client.connect(ByteArrayCodec.INSTANCE)),
                    () -> client.shutdown(0, 1, java.util.concurrent.TimeUnit.SECONDS));
        }
    };

    enum Topology { SINGLE, CLUSTER }

    /** The server, and how to end the application's client. */
    record Connected(LockServer server, AutoCloseable application) {}

    /** The user is null, or one of docs/operations/users.md: then in database 2, where there is more than one. */
    abstract Connected connect(Topology topology, int port, String user);
}
