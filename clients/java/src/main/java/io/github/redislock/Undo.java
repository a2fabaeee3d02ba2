package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Takes back what a call that was given up may have brought, or may yet bring: where its grant has come that one, else
 * whatever the owner holds or waits for there.
 *
 * <p>It is sent until it is answered. Coming late, it would take away what the same owner has got again meanwhile: where
 * it may, a task goes on with another owner. In a name of the user's it is sent once, on the connection on which
 * whatever follows in that name is asked for behind it. Where that ends, nothing keeps what it may hold. What a wait has
 * brought is kept by nobody, or by another who has asked meanwhile: that is looked at before, until the caller is told.
 */
final class Undo {
    private final Core core;
    private final String key;
    private final Owner owner;
    private volatile boolean isAnswered;
    private boolean isTold;

    Undo(Core core, String key, Owner owner) {
        this.core = core;
        this.key = key;
        this.owner = owner;
    }

    /**
     * The token is that of the grant; 0 where none is known. The line is that on which a keeper was last asked for it;
     * null where it came from a wait. Is completed when it is over.
     */
    CompletableFuture<?> send(long token, @Nullable Line on) {
        Words words = Words.of("LOCK.RELEASE", key, owner.name());
        words = token != 0 ? words.and("HOLDS", 0, "TOKEN", token) : words.and("ALL");
        if (owner.isNamed()) {
            return on != null ? once(words, on) : lookAndSend(words, new Claim(owner.name(), token, null));
        }
        Call call = new Call(core, key, Kind.RELEASE, System.nanoTime() + core.settings().release(), words);
        return call.start().whenComplete((answer, failure) -> {
            Throwable why = failure == null ? null : Line.unwrapped(failure);
            isAnswered = !call.wasRepeated() && !(why instanceof LockUnavailableException);
            Keeper home = core.keeperNow(key);
            Line open = home == null || why == null || why instanceof LockLostException ? null : home.openLine();
            if (open != null) {
                home.replace(open); // so that what it may hold is not kept
            }
        });
    }

    /** Whether it was sent, or is to be, without an answer. */
    boolean mayComeLate() {
        return !isAnswered;
    }

    /** The caller has been told: from now on nothing is sent in a name that comes back. */
    synchronized void told() {
        isTold = true;
    }

    private CompletableFuture<?> lookAndSend(Words words, Claim claim) {
        Keeper home = core.keeperNow(key);
        Line open = home == null ? null : home.openLine();
        if (open == null) {
            return CompletableFuture.failedFuture(new IOException("no keeper is open"));
        }
        return home.rivals().keep(key, claim, open).thenCompose(isOthers -> {
            synchronized (this) {
                return isOthers || isTold ? CompletableFuture.completedFuture(null) : once(words, open);
            }
        });
    }

    private CompletableFuture<?> once(Words words, Line on) {
        if (!on.isOpen()) {
            return CompletableFuture.failedFuture(new IOException("the keeper has ended"));
        }
        return on.call(words.bytes()).thenAccept(answer -> {
            Keeper home = core.keeperNow(key);
            if (home != null && answer.error() != null && Meaning.of(answer.error(), Kind.RELEASE) != Meaning.LOST) {
                home.replace(on); // so that what it may hold is not kept
            }
        });
    }
}
