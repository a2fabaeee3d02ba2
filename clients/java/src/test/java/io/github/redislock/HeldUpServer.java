package io.github.redislock;

import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;

/** A server whose calls are sent by a test, in the threads that send them: these may be held up there. */
record HeldUpServer(LockServer server, Sending sending) implements LockServer {
    /** Is given the first word of a call, and how to send it. */
    interface Sending {
        CompletableFuture<Object> send(String word, Supplier<CompletableFuture<Object>> call);
    }

    @Override
    public String node(String key) {
        return server.node(key);
    }

    @Override
    public void refresh(Duration limit) throws IOException {
        server.refresh(limit);
    }

    @Override
    public ServerConnection connect(String node, Duration limit) throws IOException {
        return new Shown(server.connect(node, limit), sending);
    }

    @Override
    public void close() {
        server.close();
    }

    private record Shown(ServerConnection connection, Sending sending) implements ServerConnection {
        @Override
        public CompletableFuture<Object> send(byte[]... words) {
            return sending.send(new String(words[0], StandardCharsets.US_ASCII), () -> connection.send(words));
        }

        @Override
        public CompletableFuture<Object> sendUnread(byte[]... words) {
            return sending.send(new String(words[0], StandardCharsets.US_ASCII), () -> connection.sendUnread(words));
        }

        @Override
        public void read(CompletableFuture<?> reply) {
            connection.read(reply);
        }

        @Override
        public void watch(boolean isWatched) {
            connection.watch(isWatched);
        }

        @Override
        public CompletionStage<?> ended() {
            return connection.ended();
        }

        @Override
        public void close() {
            connection.close();
        }
    }
}
