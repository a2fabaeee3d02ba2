package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.spi.ReplyError;
import java.io.IOException;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** One wait in a lock's line, on a connection of its own. The keeper of the lock tells when its server is silent. */
final class Wait {
    private final Core core;
    private final String key;
    private final long pace;
    private @Nullable Keeper keeper;
    private @Nullable WaitLines lines;
    private @Nullable Line line; // until it is given back or dropped
    private boolean isWaiting;

    /** The pace is how often a sign of the server is wanted. */
    Wait(Core core, String key, long pace) {
        this.core = core;
        this.key = key;
        this.pace = pace;
    }

    long pace() {
        return pace;
    }

    /** The keeper that tells of the server. */
    synchronized Keeper keeper() {
        return Objects.requireNonNull(keeper);
    }

    /** Is completed when there is a connection to wait on. From now on the key counts as waited for. */
    CompletableFuture<Wait> open() {
        core.waits(key, 1);
        Keeper known = core.keeperNow(key);
        if (known != null && known.openLine() != null) {
            WaitLines pool = core.waitLines(known.node());
            Line idle = pool.takeIdle();
            if (idle != null) {
                begin(known, pool, idle);
                return CompletableFuture.completedFuture(this);
            }
        }
        return dialled();
    }

    /** The same where the keeper or the connection has yet to be opened. */
    private CompletableFuture<Wait> dialled() {
        return core.keeper(key)
                .thenCompose(home -> home.line().thenApply(open -> home))
                .thenCompose(home -> {
                    WaitLines pool = core.waitLines(home.node());
                    return pool.take().thenAccept(taken -> begin(home, pool, taken));
                })
                .handle((nothing, thrown) -> {
                    if (thrown != null) {
                        core.waits(key, -1);
                        throw Line.completion(thrown);
                    }
                    return this;
                });
    }

    private synchronized void begin(Keeper home, WaitLines pool, Line taken) {
        keeper = home;
        lines = pool;
        line = taken;
    }

    /** Nobody wants it any more, and nothing was sent. */
    void withdraw() {
        core.waits(key, -1);
        giveBack();
    }

    /** Waits, for as long as the words say; the caller may read the reply. A connection that fails is gone; else it is to be given back. */
    CompletableFuture<Answer> await(Words words, Caller caller) {
        Line mine;
        synchronized (this) {
            mine = Objects.requireNonNull(line);
            isWaiting = true;
        }
        keeper().addWait(this);
        return mine.await(caller, words.bytes()).whenComplete((answer, thrown) -> {
            keeper().removeWait(this);
            core.waits(key, -1);
            synchronized (this) {
                isWaiting = false;
            }
            if (thrown != null) {
                drop(new IOException("no answer"));
            }
        });
    }

    /** How many replicas have acknowledged what was granted here, in nearly a reply's time; or an error. */
    CompletableFuture<Answer> acknowledged(int replicas) {
        long millis = Math.max(1, core.settings().reply() / 1_000_000 * 8 / 10);
        Line mine;
        synchronized (this) {
            mine = Objects.requireNonNull(line);
        }
        return mine.call(Words.of("WAIT", replicas, millis).bytes());
    }

    /** Whether it has a connection, which has not ended. */
    synchronized boolean isOpen() {
        return line != null && line.isOpen();
    }

    /** Sends one call more on its connection, which is given back after it. */
    CompletableFuture<Answer> callAndGiveBack(Caller caller, byte[]... words) {
        return call(caller, words).thenApply(answer -> {
            giveBackAfter(answer.error());
            return answer;
        });
    }

    /** The same, and it is still to be given back. */
    CompletableFuture<Answer> call(byte[]... words) {
        return call(Caller.NONE, words);
    }

    private CompletableFuture<Answer> call(Caller caller, byte[]... words) {
        Line mine;
        synchronized (this) {
            mine = Objects.requireNonNull(line);
        }
        // After half of the time there is enough left for the keeper.
        long limit = Math.min(core.settings().reply(), core.settings().release()) / 2;
        return mine.call(caller, limit, words).whenComplete((answer, thrown) -> {
            if (thrown != null) {
                drop(thrown);
            }
        });
    }

    /** The connection owes no reply. */
    void giveBack() {
        giveBackAfter(null);
    }

    /** The same after this error, if any. */
    void giveBackAfter(@Nullable ReplyError error) {
        Line mine = taken();
        if (mine != null) {
            Objects.requireNonNull(lines).giveBackAfter(mine, error);
        }
    }

    /** The connection may owe a reply that nobody waits for. */
    void drop(Throwable why) {
        Line mine = taken();
        if (mine != null) {
            Objects.requireNonNull(lines).drop(mine, why);
        }
    }

    private synchronized @Nullable Line taken() {
        Line mine = line;
        line = null;
        return mine;
    }

    /** The server is not heard any more: the reply would not be either. */
    void breakLine(Throwable why) {
        Line silent;
        synchronized (this) {
            silent = isWaiting ? line : null;
        }
        if (silent != null) {
            silent.close(why);
        }
    }
}
