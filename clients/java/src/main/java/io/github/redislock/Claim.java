package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * A grant that is kept in a name which others use too: by now one of them may keep it. The server has then closed the
 * connection that kept it last, so what is sent on that one takes nothing from them. On any other they are looked for
 * before, and it goes on the connection that has answered, or not at all.
 */
final class Claim {
    private final String owner;
    private final long token;
    private volatile @Nullable Line line;

    /** The line is that which keeps it, if any does; the token is 0 for whatever the owner has there. */
    Claim(String owner, long token, @Nullable Line line) {
        this.owner = owner;
        this.token = token;
        this.line = line;
    }

    /** Null where nobody keeps it, or nobody else uses the name. */
    static @Nullable Claim of(Owner owner, LockSpec spec, long token, @Nullable Line line) {
        return owner.isNamed() && spec.keepMs() > 0 ? new Claim(owner.name(), token, line) : null;
    }

    String owner() {
        return owner;
    }

    long token() {
        return token;
    }

    /** Whether this line has kept it last. */
    boolean isKeptOn(Line on) {
        return line == on;
    }

    /** This line keeps it, as it has answered. */
    void keptOn(Line on) {
        line = on;
    }

    /** From now on no line keeps it, and none is closed. Gives what is left to the call that says so. */
    Claim end() {
        Claim last = new Claim(owner, token, line);
        line = null;
        return last;
    }
}
