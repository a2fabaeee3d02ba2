package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;

/** Ends a call of the user, for this reason. */
public final class Failure extends RuntimeException {
    /** The use of a client that is closed. */
    static final Fault CLOSED = Fault.of(Kind.MISUSE, "the client is closed");

    /** The reason. */
    public final transient Fault fault;

    /** With this reason. */
    public Failure(Fault fault) {
        super(fault.text(), fault.cause(), false, false);
        this.fault = fault;
    }
}
