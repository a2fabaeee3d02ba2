package io.github.redislock.jedis;

import io.github.redislock.spi.ReplyError;
import io.github.redislock.spi.ServerConnection;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.Socket;
import java.net.SocketException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import javax.net.ssl.SSLSocket;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisSocketFactory;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisSocketFactory;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/** A connection of Jedis, on which calls may overlap. One thread at a time reads it, while there is anything to read. */
final class JedisConnection implements ServerConnection {
    private final Wire wire;
    private final Dialer dialer;
    private final Executor readers;
    private final ReentrantLock writing = new ReentrantLock();
    private final ConcurrentLinkedQueue<CompletableFuture<@Nullable Object>> unanswered = new ConcurrentLinkedQueue<>();
    private final CompletableFuture<@Nullable Object> ended = new CompletableFuture<>();
    private boolean isRead; // by some thread; after the end for ever
    private boolean isWatched;

    /** Opens what Jedis can read and write at the same time. */
    private static final class Wire extends Connection {
        Wire(JedisSocketFactory sockets, JedisClientConfig config) {
            super(sockets, config);
        }

        void write(CommandArguments command) {
            sendCommand(command);
            flush();
        }

        @Nullable Object read() {
            return readProtocolWithCheckingBroken();
        }
    }

    /**
     * Remembers the socket: it is closed without the rest of what is written, which may block. Jedis connects again
     * by itself before a command; here it does not.
     */
    private static final class Dialer implements JedisSocketFactory {
        private final JedisSocketFactory sockets;
        private volatile @Nullable Socket socket;
        private volatile boolean isOpened;

        Dialer(JedisSocketFactory sockets) {
            this.sockets = sockets;
        }

        @Override
        public Socket createSocket() {
            if (isOpened) {
                throw new JedisConnectionException("the connection has ended");
            }
            Socket made = sockets.createSocket();
            if (!(made instanceof SSLSocket)) {
                setBlocking(made);
            }
            socket = made;
            return made;
        }

        /** After one read with a time limit the JDK asks the system three times for each reply, for ever. */
        private static void setBlocking(Socket made) {
            try {
                made.setSoTimeout(0);
            } catch (SocketException e) {
                throw new JedisConnectionException(e);
            }
        }

        void close() {
            Socket open = socket;
            if (open != null) {
                try {
                    open.close();
                } catch (IOException e) {
                    // It is closed.
                }
            }
        }
    }

    private JedisConnection(Wire wire, Dialer dialer, Executor readers) {
        this.wire = wire;
        this.dialer = dialer;
        this.readers = readers;
    }

    static JedisConnection open(HostAndPort node, JedisClientConfig config, Duration limit, Executor readers)
            throws IOException {
        JedisClientConfig limited = limited(config, limit);
        Dialer dialer = new Dialer(new DefaultJedisSocketFactory(node, limited));
        CompletableFuture<@Nullable Void> greeted = new CompletableFuture<>();
        greeted.orTimeout(limit.toNanos(), TimeUnit.NANOSECONDS).whenCompleteAsync((nothing, late) -> {
            if (late != null) {
                dialer.close();
            }
        }, readers);
        boolean done = false;
        try {
            Wire wire = new Wire(dialer, limited);
            dialer.isOpened = true;
            wire.setSoTimeout(0); // whoever waits for a reply has a limit of its own
            done = true;
            return new JedisConnection(wire, dialer, readers);
        } catch (JedisDataException e) {
            throw new ReplyError(String.valueOf(e.getMessage()));
        } catch (JedisConnectionException e) {
            throw new IOException(node + ": " + e.getMessage(), e);
        } finally {
            greeted.complete(null);
            if (!done) {
                dialer.close();
            }
        }
    }

    /** The user's configuration, whatever a later Jedis adds to it, with our time limits. */
    private static JedisClientConfig limited(JedisClientConfig config, Duration limit) {
        int millis = (int) Math.max(1, limit.toMillis());
        return (JedisClientConfig) Proxy.newProxyInstance(JedisClientConfig.class.getClassLoader(),
                new Class<?>[] {JedisClientConfig.class}, (proxy, method, arguments) -> {
                    switch (method.getName()) {
                        case "getConnectionTimeoutMillis", "getSocketTimeoutMillis" -> {
                            return millis;
                        }
                        default -> {
                            try {
                                return method.invoke(config, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        }
                    }
                });
    }

    @Override
    public CompletableFuture<@Nullable Object> send(byte[]... words) {
        CompletableFuture<@Nullable Object> reply = sendUnread(words);
        readElsewhere();
        return reply;
    }

    @Override
    public CompletableFuture<@Nullable Object> sendUnread(byte[]... words) {
        CommandArguments command = new CommandArguments(() -> words[0]);
        for (int n = 1; n < words.length; n++) {
            command.add((Object) words[n]); // which every version has
        }
        CompletableFuture<@Nullable Object> reply = new CompletableFuture<>();
        writing.lock();
        try {
            unanswered.add(reply);
            wire.write(command);
        } catch (RuntimeException e) {
            close();
            reply.completeExceptionally(e instanceof JedisConnectionException ? new IOException(e) : e);
        } finally {
            writing.unlock();
        }
        if (ended.isDone()) {
            fail(new IOException("the connection has ended"));
        }
        return reply;
    }

    @Override
    public void read(CompletableFuture<?> reply) {
        if (begin(() -> true)) {
            readWhile(() -> !reply.isDone());
        }
    }

    @Override
    public void watch(boolean isWatched) {
        synchronized (this) {
            this.isWatched = isWatched;
        }
        readElsewhere();
    }

    private synchronized boolean isWanted() {
        return isWatched || !unanswered.isEmpty();
    }

    /** Whether the caller is to read from now on. */
    private synchronized boolean begin(BooleanSupplier isWanted) {
        boolean begins = !isRead && isWanted.getAsBoolean();
        isRead |= begins;
        return begins;
    }

    private void readElsewhere() {
        if (begin(this::isWanted)) {
            try {
                readers.execute(() -> readWhile(this::isWanted));
            } catch (Throwable e) { // there may be no thread
                end(e);
            }
        }
    }

    private void readWhile(BooleanSupplier isWanted) {
        try {
            while (isWanted.getAsBoolean()) {
                try {
                    Object value = wire.read();
                    answer().complete(value);
                } catch (JedisDataException e) {
                    answer().completeExceptionally(new ReplyError(String.valueOf(e.getMessage())));
                }
            }
        } catch (Throwable e) { // an Error too ends it, and has to be told
            end(e);
            return;
        }
        synchronized (this) {
            isRead = false;
        }
        readElsewhere(); // what was sent meanwhile
    }

    private void end(Throwable why) {
        dialer.close();
        ended.complete(null);
        fail(new IOException("the connection has ended", why));
    }

    private CompletableFuture<@Nullable Object> answer() {
        CompletableFuture<@Nullable Object> oldest = unanswered.poll();
        if (oldest == null) {
            throw new IllegalStateException("a reply that nobody asked for");
        }
        return oldest;
    }

    private void fail(IOException why) {
        for (CompletableFuture<?> reply = unanswered.poll(); reply != null; reply = unanswered.poll()) {
            reply.completeExceptionally(why);
        }
    }

    @Override
    public CompletionStage<?> ended() {
        return ended;
    }

    @Override
    public void close() {
        dialer.close();
        if (begin(() -> true)) { // else its reader ends it
            end(new IOException("it was closed"));
        }
    }
}
