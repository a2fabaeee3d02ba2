package io.github.redislock.jedis;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisSocketFactory;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.SafeEncoder;

/** A connection of Jedis that is opened when it is used. */
final class JedisConnection implements ServerConnection {
    private final LongFunction<HostAndPort> address;
    private final JedisClientConfig config;
    private volatile @Nullable Connection connected;

    JedisConnection(LongFunction<HostAndPort> address, JedisClientConfig config) {
        this.address = address;
        this.config = config;
    }

    private static CommandArguments arguments(String[] words) {
        CommandArguments command = new CommandArguments(() -> SafeEncoder.encode(words[0]));
        for (int n = 1; n < words.length; n++) {
            command.add((Object) SafeEncoder.encode(words[n])); // which every version has
        }
        return command;
    }

    @Override
    public List<Reply> send(long limit, List<String[]> commands) {
        List<Reply> replies = new ArrayList<>(commands.size());
        long end = System.nanoTime() + limit;
        boolean isSent = false;
        try {
            Connection open = connected != null ? connected : connect(end);
            isSent = true;
            commands.forEach(words -> open.sendCommand(arguments(words)));
            for (int n = 0; n < commands.size(); n++) {
                open.setSoTimeout(millis(end));
                replies.add(read(open));
            }
        } catch (RuntimeException e) {
            close();
            Reply fault = e instanceof JedisDataException && !isSent ? error(e) : Reply.of(Fault.none(isSent, e));
            replies.addAll(Collections.nCopies(commands.size() - replies.size(), fault));
        }
        return replies;
    }

    private static Reply read(Connection open) {
        try {
            return Reply.of(SafeEncoder.encodeObject(open.getOne())); // bytes as strings
        } catch (JedisDataException e) {
            return error(e);
        }
    }

    private static Reply error(RuntimeException e) {
        return Reply.of(Fault.reply(String.valueOf(e.getMessage())));
    }

    private static int millis(long end) {
        return (int) Math.max(1, (end - System.nanoTime()) / 1_000_000);
    }

    private Connection connect(long end) {
        HostAndPort server = address.apply(end - System.nanoTime());
        JedisClientConfig limited = limited(config, millis(end));
        Connection opened = new Connection(new DefaultJedisSocketFactory(server, limited), limited);
        connected = opened;
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

    @Override
    public void close() {
        Connection open = connected;
        connected = null;
        if (open != null) {
            try {
                open.disconnect();
            } catch (JedisException e) {
                // It is closed.
            }
        }
    }
}
