package io.github.redislock;

import io.github.redislock.jedis.JedisServer;
import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.codec.ByteArrayCodec;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;

/** The client libraries that the tests are run with, each as an application sets it up. */
enum Client {
    JEDIS {
        @Override
        Connected connect(int port, String user) {
            var config = DefaultJedisClientConfig.builder().timeoutMillis(60_000); // the locks have their own
            if (user != null) {
                config.user(user).password("secret").clientName("orders").database(2);
            }
            return new Connected(JedisServer.of(new HostAndPort("127.0.0.1", port), config.build()), () -> { });
        }
    },
    LETTUCE {
        @Override
        Connected connect(int port, String user) {
            RedisURI.Builder uri = RedisURI.builder().withHost("127.0.0.1").withPort(port);
            if (user != null) {
                uri.withAuthentication(user, "secret").withClientName("orders").withDatabase(2);
            }
            RedisClient client = RedisClient.create();
            return new Connected(LettuceServer.of(client, uri.build()),
                    () -> client.shutdown(0, 1, java.util.concurrent.TimeUnit.SECONDS));
        }
    },
    /** A factory of the user's on a client that reconnects: as with a RedisConnectionFactory of Spring. */
    LETTUCE_FACTORY {
        @Override
        Connected connect(int port, String user) {
            RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", port));
            return new Connected(LettuceServer.connecting("127.0.0.1:" + port, () -> client.connect(ByteArrayCodec.INSTANCE)),
                    () -> client.shutdown(0, 1, java.util.concurrent.TimeUnit.SECONDS));
        }
    };

    /** The server, and how to end the application's client. */
    record Connected(LockServer server, AutoCloseable application) {}

    /** The user is null, or one of docs/operations/users.md: then in database 2. */
    abstract Connected connect(int port, String user);
}
