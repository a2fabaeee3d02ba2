package io.github.redislock.jedis;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisSocketFactory;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisSocketFactory;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/** A connection of Jedis that is opened when it is used. */
final class JedisConnection implements ServerConnection {
    /** Opens what Jedis reads and writes. */
    private static final class Wire extends Connection {
        Wire(JedisSocketFactory sockets, JedisClientConfig config) {
            super(sockets, config);
        }

        void write(List<String[]> commands) {
            for (String[] words : commands) {
                CommandArguments command = new CommandArguments(() -> bytes(words[0]));
                for (int n = 1; n < words.length; n++) {
                    command.add((Object) bytes(words[n])); // which every version has
                }
                sendCommand(command);
            }
            flush();
        }

        @Nullable Object read() {
            return readProtocolWithCheckingBroken();
        }
    }

    private static final int NANOS = 1_000_000;

    private final JedisNode.Address address;
    private final JedisClientConfig config;
    private volatile @Nullable Wire wire;
    private int timeout;
    private volatile boolean isOld;

    JedisConnection(JedisNode.Address address, JedisClientConfig config) {
        this.address = address;
        this.config = config;
    }

    private static byte[] bytes(String word) {
        return word.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public List<Reply> send(long limit, List<String[]> commands) {
        List<Reply> replies = new ArrayList<>(commands.size());
        long end = System.nanoTime() + limit;
        boolean isSent = false;
        if (isOld) {
            close();
        }
        try {
            Wire open = wire != null ? wire : connect(end);
            wait(open, end);
            isSent = true;
            open.write(commands);
            for (int n = 0; n < commands.size(); n++) {
                wait(open, end);
                replies.add(read(open));
            }
        } catch (RuntimeException e) {
            close();
            Reply fault = e instanceof JedisDataException && !isSent ? error(e) : Reply.of(Fault.none(isSent, e));
            replies.addAll(Collections.nCopies(commands.size() - replies.size(), fault));
        }
        return replies;
    }

    private static Reply read(Wire open) {
        try {
            return Reply.of(decoded(open.read()));
        } catch (JedisDataException e) {
            return error(e);
        }
    }

    private static Reply error(RuntimeException e) {
        return Reply.of(Fault.reply(String.valueOf(e.getMessage())));
    }

    /** Limits the next read. */
    private void wait(Wire open, long end) {
        int millis = millis(end);
        if (millis != timeout) {
            open.setSoTimeout(millis);
            timeout = millis;
        }
    }

    private static int millis(long end) {
        return (int) Math.max(1, (end - System.nanoTime()) / NANOS);
    }

    private Wire connect(long end) {
        HostAndPort server = address.find(end - System.nanoTime());
        int millis = millis(end);
        JedisClientConfig limited = limited(config, millis);
        Wire opened = new Wire(new DefaultJedisSocketFactory(server, limited), limited);
        timeout = millis;
        wire = opened;
        return opened;
    }

    /** The user's configuration, whatever a later Jedis adds to it, with our time limits. */
    private static JedisClientConfig limited(JedisClientConfig config, int millis) {
        return (JedisClientConfig) Proxy.newProxyInstance(JedisClientConfig.class.getClassLoader(),
                new Class<?>[] {JedisClientConfig.class}, (proxy, method, arguments) -> {
                    if (method.getName().matches("get(Connection|Socket)TimeoutMillis")) {
                        return millis;
                    }
                    try {
                        return method.invoke(config, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    private static @Nullable Object decoded(@Nullable Object value) {
        if (value instanceof byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        if (value instanceof List<?> list) {
            List<@Nullable Object> decoded = new ArrayList<>(list.size());
            for (Object one : list) {
                if (one instanceof Map.Entry<?, ?> field) { // of a map, by RESP3
                    decoded.add(decoded(field.getKey()));
                    decoded.add(decoded(field.getValue()));
                } else {
                    decoded.add(decoded(one));
                }
            }
            return decoded;
        }
        return value;
    }

    /** Has the next call open a new connection. */
    void renew() {
        isOld = true;
    }

    @Override
    public void close() {
        isOld = false;
        Wire open = wire;
        wire = null;
        if (open != null) {
            try {
                open.disconnect();
            } catch (JedisException e) {
                // It is closed.
            }
        }
    }
}
