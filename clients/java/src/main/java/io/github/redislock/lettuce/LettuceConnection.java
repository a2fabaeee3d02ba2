package io.github.redislock.lettuce;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.Command;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.RedisCommand;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/** A connection of Lettuce that is opened when it is used, by any number of threads. It is closed as soon as it breaks. */
final class LettuceConnection implements ServerConnection {
    /** The name of a command. Equal names are equal: Lettuce keeps the latencies of each. */
    @SuppressWarnings("deprecation") // old versions ask for name(), new ones for toString()
    private record Word(String name) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return name.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    private static final long MILLISECOND = 1_000_000;

    private final LongFunction<CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>>> dial;
    private volatile @Nullable CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> connecting;

    /** dial connects, with a limit in nanoseconds for the handshake. */
    LettuceConnection(LongFunction<CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>>> dial) {
        this.dial = dial;
    }

    private synchronized CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> open(long limit) {
        if (connecting == null) {
            CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> opening = dial.apply(Math.max(MILLISECOND, limit));
            // Lettuce must not repeat on another connection what has had no reply on this one.
            opening.thenAccept(opened -> opened.addListener(new RedisConnectionStateListener() {
                @Override
                public void onRedisDisconnected(RedisChannelHandler<?, ?> broken) {
                    close(opening);
                }
            }));
            connecting = opening;
        }
        return connecting;
    }

    @Override
    public List<Reply> send(long limit, List<String[]> commands) {
        long end = System.nanoTime() + limit;
        List<Reply> replies = new ArrayList<>(commands.size());
        CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> used = open(limit);
        boolean isSent = false;
        Fault fault = Fault.NONE;
        try {
            StatefulRedisConnection<byte[], byte[]> connection = get(used, end);
            List<AsyncCommand<byte[], byte[], List<Object>>> sent = commands.stream().map(LettuceConnection::command).toList();
            isSent = true;
            connection.dispatch(new ArrayList<RedisCommand<byte[], byte[], ?>>(sent));
            for (AsyncCommand<byte[], byte[], List<Object>> one : sent) {
                replies.add(reply(one, end));
            }
        } catch (TimeoutException e) {
            fault = Fault.none(isSent, isSent ? "no reply in time" : "no connection in time");
        } catch (ExecutionException | RuntimeException e) {
            Throwable refusal = e;
            while (refusal != null && !(refusal instanceof RedisCommandExecutionException)) {
                refusal = refusal.getCause();
            }
            fault = refusal != null && !isSent ? Fault.reply(String.valueOf(refusal.getMessage()))
                    : Fault.none(isSent, e.getCause() == null ? e : e.getCause());
        }
        if (fault != Fault.NONE) {
            close(used);
            replies.addAll(Collections.nCopies(commands.size() - replies.size(), Reply.of(fault)));
        }
        return replies;
    }

    private static Reply reply(AsyncCommand<byte[], byte[], List<Object>> sent, long end)
            throws ExecutionException, TimeoutException {
        try {
            List<Object> list = get(sent.toCompletableFuture(), end);
            boolean isList = list.size() > 1 || list.size() == 1 && list.get(0) instanceof List;
            return Reply.of(isList ? list : list.isEmpty() ? null : list.get(0)); // Lettuce makes a list of each reply
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RedisCommandExecutionException said) {
                return Reply.of(Fault.reply(String.valueOf(said.getMessage())));
            }
            throw e;
        }
    }

    /** Waits for a result. An interrupt does not end that, and is kept. */
    private static <T extends @Nullable Object> T get(CompletableFuture<T> future, long end)
            throws ExecutionException, TimeoutException {
        try {
            return future.get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            try {
                return get(future, end);
            } finally {
                Thread.currentThread().interrupt();
            }
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"}) // what it reads are strings, whatever the connection's own codec is
    private static AsyncCommand<byte[], byte[], List<Object>> command(String[] words) {
        CommandArgs<byte[], byte[]> arguments = new CommandArgs<>(ByteArrayCodec.INSTANCE);
        for (int n = 1; n < words.length; n++) {
            arguments.add(words[n].getBytes(StandardCharsets.UTF_8));
        }
        CommandOutput<byte[], byte[], List<Object>> output = (CommandOutput) new NestedMultiOutput<>(StringCodec.UTF8);
        return new AsyncCommand<>(new Command<>(new Word(words[0]), output, arguments));
    }

    private synchronized CompletableFuture<Void> close(
            CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> used) {
        if (connecting != used) {
            return CompletableFuture.completedFuture(null);
        }
        connecting = null;
        return used.thenCompose(StatefulRedisConnection::closeAsync);
    }

    /** It waits for the end of an open connection: a client that is shut down meanwhile would warn of it. */
    @Override
    public void close() {
        CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> used = connecting;
        if (used != null) {
            try {
                get(close(used), System.nanoTime() + (used.isDone() ? 100 * MILLISECOND : 0));
            } catch (ExecutionException | TimeoutException e) {
                // Lettuce goes on to close it.
            }
        }
    }
}
