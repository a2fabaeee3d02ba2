package io.github.redislock.lettuce;

import io.github.redislock.spi.ReplyError;
import io.github.redislock.spi.ServerConnection;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.Command;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** A connection of Lettuce. It is closed as soon as it breaks, so that Lettuce repeats nothing on a new one. */
final class LettuceConnection implements ServerConnection {
    private final StatefulRedisConnection<byte[], byte[]> connection;
    private final CompletableFuture<@Nullable Object> ended = new CompletableFuture<>();

    private record Word(byte[] bytes) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return bytes;
        }

        @Override
        public String name() {
            return new String(bytes, StandardCharsets.US_ASCII);
        }

        @Override
        public String toString() {
            return name();
        }
    }

    private LettuceConnection(StatefulRedisConnection<byte[], byte[]> connection) {
        this.connection = connection;
    }

    static LettuceConnection open(CompletionStage<? extends StatefulRedisConnection<byte[], byte[]>> connecting,
            Duration limit) throws IOException {
        CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> future = connecting.toCompletableFuture();
        try {
            return of(future.get(limit.toNanos(), TimeUnit.NANOSECONDS));
        } catch (TimeoutException e) {
            future.thenAccept(StatefulRedisConnection::closeAsync);
            throw new IOException("no connection in " + limit.toMillis() + " ms", e);
        } catch (InterruptedException e) {
            future.thenAccept(StatefulRedisConnection::closeAsync);
            Thread.currentThread().interrupt();
            throw new IOException(e);
        } catch (ExecutionException e) {
            throw failure(e.getCause());
        }
    }

    static LettuceConnection of(StatefulRedisConnection<byte[], byte[]> opened) throws IOException {
        LettuceConnection connection = new LettuceConnection(opened);
        opened.setTimeout(Duration.ZERO); // whoever waits for a reply has a limit of its own
        opened.addListener(new RedisConnectionStateListener() {
            @Override
            public void onRedisDisconnected(RedisChannelHandler<?, ?> broken) {
                connection.close();
            }
        });
        if (!opened.isOpen()) {
            connection.close();
            throw new IOException("the connection has ended");
        }
        return connection;
    }

    /** What has hindered connecting: a refusal, something that may pass, or something else, which is thrown. */
    static IOException failure(@Nullable Throwable thrown) {
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            if (cause instanceof RedisCommandExecutionException && cause.getMessage() != null) {
                throw new ReplyError(cause.getMessage());
            }
        }
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            if (cause instanceof IOException || cause instanceof RedisException || cause instanceof TimeoutException) {
                return new IOException(String.valueOf(thrown.getMessage()), thrown);
            }
        }
        if (thrown instanceof RuntimeException defect) {
            throw defect;
        }
        return new IOException(thrown);
    }

    @Override
    public CompletableFuture<@Nullable Object> send(byte[]... words) {
        CommandArgs<byte[], byte[]> arguments = new CommandArgs<>(ByteArrayCodec.INSTANCE);
        for (int n = 1; n < words.length; n++) {
            arguments.add(words[n]);
        }
        AsyncCommand<byte[], byte[], @Nullable Object> command =
                new AsyncCommand<>(new Command<>(new Word(words[0]), new RawOutput(), arguments));
        try {
            connection.dispatch(command);
        } catch (RuntimeException e) {
            close();
            return CompletableFuture.failedFuture(new IOException("not sent", e));
        }
        return command.toCompletableFuture().handle((reply, failure) -> {
            if (failure == null) {
                return reply;
            }
            if (failure instanceof RedisCommandExecutionException) {
                throw new ReplyError(String.valueOf(failure.getMessage()));
            }
            throw new CompletionException(new IOException("no answer", failure));
        });
    }

    @Override
    public CompletionStage<?> ended() {
        return ended;
    }

    @Override
    public void close() {
        if (ended.complete(null)) { // Lettuce warns of the second time
            connection.closeAsync();
        }
    }
}
