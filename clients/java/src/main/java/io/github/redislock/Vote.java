package io.github.redislock;

import io.github.redislock.spi.Kind;
import org.jspecify.annotations.Nullable;

/** What an acquire has got of one server. */
final class Vote {
    final Core member;
    @Nullable Grant grant;
    long token; // of the grant
    boolean isRaising; // to another token, or to its own
    boolean isRaised; // the server has acknowledged the token
    long refused; // the token that is too far ahead of its clock
    @Nullable Throwable error; // why there is no grant, or no token
    @Nullable Acquire asking; // under way
    boolean isInLine; // it waits in line for its turn

    Vote(Core member) {
        this.member = member;
    }

    /** Applies the outcome of the acquire under way. */
    void answered(@Nullable Grant granted, @Nullable Exception failure) {
        grant = granted;
        error = failure;
        asking = null;
        isInLine = false;
        if (granted != null) {
            token = granted.token();
            isRaised = false;
            refused = 0;
        }
    }

    /** Ends the acquire under way, whose outcome does not count any more. */
    void stop() {
        if (asking != null) {
            asking.stop();
            asking = null;
            isInLine = false;
        }
    }

    boolean isGranted() {
        return grant != null;
    }

    /** Whether an answer is to come soon. */
    boolean isOpen() {
        return isRaising || asking != null && !isInLine;
    }

    /** The outcome for the acquire: busy if the server has granted the lock, or if the call waits in line. */
    Kind kind() {
        boolean isBusy = isInLine || error == null && !isOpen();
        return isBusy ? Kind.BUSY : error == null ? Kind.UNAVAILABLE : LockException.kindOf(error);
    }

    boolean isDown() {
        return member.loops.values().stream().anyMatch(loop -> loop.isDown);
    }

    /** Whether the server takes part in the line. */
    boolean hasAnswered() {
        return grant != null || (isInLine ? !isDown() : !isOpen() && error instanceof LockBusyException);
    }

    /** Whether the grant stands, and the server has acknowledged the token. */
    boolean has(long token) {
        return grant != null && isRaised && this.token == token && grant.isHeld();
    }

    /** Whether the server can be raised to a token, as far as is known. */
    boolean canHave(long token) {
        return grant != null && this.token <= token && (refused == 0 || token < refused);
    }
}
