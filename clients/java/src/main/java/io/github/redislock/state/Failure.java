package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import org.jspecify.annotations.Nullable;

/** What ends a call of the user. */
public record Failure(Kind kind, String text, @Nullable Throwable cause) {
    /** The use of a client that is closed. */
    public static final Failure CLOSED = of(Kind.MISUSE, "the client is closed");

    /** A failure that this client finds. */
    public static Failure of(Kind kind, String text) {
        return new Failure(kind, text, null);
    }

    /** What a fault means to the user. It names the server. */
    public static Failure of(Fault fault, String server) {
        return new Failure(fault.kind(), server + ": " + fault.text(), fault.cause());
    }
}
