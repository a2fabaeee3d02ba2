package io.github.redislock;

import org.jspecify.annotations.Nullable;

/** What an acquire has got of one server. */
final class Vote {
    final Core member;
    @Nullable Grant grant;
    long token; // of the grant
    boolean isRaised; // the server has acknowledged the token
    long refused; // the token that is too far ahead of its clock
    @Nullable Throwable error; // why there is no grant, or no token
    boolean isOpen; // an acquire or a raise is under way
    boolean isInLine; // an acquire waits in line for its turn
    int asks; // acquires so far: only the last one counts
    @Nullable Acquire asking;

    Vote(Core member) {
        this.member = member;
    }

    /** Applies the outcome of the last acquire. */
    void answered(@Nullable Grant granted, @Nullable Exception failure) {
        grant = granted;
        error = failure;
        isOpen = false;
        isInLine = false;
        if (granted != null) {
            token = granted.token();
            isRaised = false;
            refused = 0;
        }
    }

    boolean isGranted() {
        return grant != null;
    }

    /** By its last answer. */
    boolean isBusy() {
        return error instanceof LockBusyException;
    }

    boolean isDown() {
        return member.loops.values().stream().anyMatch(loop -> loop.isDown);
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
