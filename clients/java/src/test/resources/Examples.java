import io.github.redislock.*;
import io.github.redislock.jedis.*;
import io.github.redislock.lettuce.*;
import io.github.redislock.spi.*;
import io.github.redislock.testing.*;
import io.lettuce.core.*;
import io.lettuce.core.cluster.*;
import io.lettuce.core.codec.ByteArrayCodec;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** The names that the examples of the documentation use. JavadocTest inserts the examples. */
public class Examples {
    interface LettuceConnectionFactory { // of Spring
        Object getRequiredNativeClient();
    }

    static class ErrorReply extends RuntimeException {}

    record Library(String host, int port) implements AutoCloseable {
        Object send(String[] words, Duration limit) {
            return 1L;
        }

        @Override
        public void close() {}
    }

    final StandIn standIn = new StandIn();
    final Locks locks = Locks.of(standIn.server(), "examples");
    final Locks others = Locks.of(standIn.server(), "others");
    Quorum quorum;
    LettuceConnectionFactory factory;

    void pay(long token) {}

    void schedule(long token) {}

    void answer(int status) {}

    void stop() {}

    ServerNode node(String address) {
        return null;
    }

// the examples
}
