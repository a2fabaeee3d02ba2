package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import io.github.redislock.spi.ReplyError;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** A command to the keeper of a key, sent until it is answered by more than a passing error, or its time is up. */
final class Call {
    private final Core core;
    private final String key;
    private final Kind kind;
    private final byte[][] words;
    private final @Nullable Claim claim;
    private final CompletableFuture<Answer> result = new CompletableFuture<>();
    private final long deadline;
    private final TimeLimit limit;
    private long pause;
    private boolean isOver;
    private boolean isSending;
    private @Nullable LockException ended; // while it was being sent
    private volatile boolean sent;
    private volatile boolean repeated;
    private volatile boolean isOthers;
    private volatile @Nullable Line line;
    private volatile @Nullable Throwable last;

    /** The deadline is {@link Long#MAX_VALUE} where there is none. */
    Call(Core core, String key, Kind kind, long deadline, Words words) {
        this(core, key, kind, deadline, words, null);
    }

    /** The same for what must take nothing from others who may keep that grant by now: then it is lost. */
    Call(Core core, String key, Kind kind, long deadline, Words words, @Nullable Claim claim) {
        this.core = core;
        this.key = key;
        this.kind = kind;
        this.deadline = deadline;
        this.words = words.bytes();
        this.claim = claim;
        limit = new TimeLimit(core, this::outOfTime);
    }

    /** Its reply; or an error of the family. */
    CompletableFuture<Answer> start() {
        core.calls.add(this);
        attempt();
        return result;
    }

    /** The same, first on the connection of a wait. The caller may read it, and then nobody has to wake it. */
    CompletableFuture<Answer> startOn(Wait wait, Caller caller) {
        core.calls.add(this);
        Claim mine = claim;
        if (mine == null) {
            alarmWhereReplyMayBeLater();
            sent = true;
            answered(wait.callAndGiveBack(caller, words));
            return result;
        }
        limit.set(deadline);
        wait.keeper().rivals().keep(mine, wait.call(Rivals.look(key))).whenComplete((others, thrown) -> {
            if (thrown == null && !others && begins()) {
                answered(wait.callAndGiveBack(Caller.NONE, words));
                return;
            }
            wait.giveBackAfter(thrown != null && Line.unwrapped(thrown) instanceof ReplyError error ? error : null);
            if (thrown != null) {
                failed(thrown, false);
            } else if (others) {
                failOthers();
            }
        });
        return result;
    }

    CompletableFuture<Answer> result() {
        return result;
    }

    /** Nothing is sent any more, and no alarm rings. */
    void abandon(LockException reason) {
        fail(reason);
    }

    /** Whether the server may have carried it out. */
    boolean wasSent() {
        return sent;
    }

    /** Whether it was sent again after it had got no reply. */
    boolean wasRepeated() {
        return repeated;
    }

    /** Whether it was not sent in the end, as another connection keeps the grant. */
    boolean isOthers() {
        return isOthers;
    }

    /** On which keeper's connection it was sent last; null where on none. */
    @Nullable Line line() {
        return line;
    }

    private void attempt() {
        if (core.isOver()) {
            fail(Core.closedError());
        }
        if (result.isDone()) {
            return;
        }
        Keeper keeper = core.keeperNow(key);
        Line open = keeper == null ? null : keeper.openLine();
        if (open != null) {
            alarmWhereReplyMayBeLater();
            send(keeper, open);
            return;
        }
        limit.set(deadline);
        core.keeper(key).thenCompose(home -> home.line().thenAccept(opened -> send(home, opened)))
                .whenComplete((nothing, thrown) -> {
                    if (thrown != null) {
                        failed(thrown, false);
                    }
                });
    }

    /** A line that gives no answer ends in a reply's time: an alarm is only for less than that. */
    private void alarmWhereReplyMayBeLater() {
        if (deadline != Long.MAX_VALUE && deadline - System.nanoTime() < core.settings().reply() / 10 * 9) {
            limit.set(deadline);
        }
    }

    private void send(Keeper keeper, Line on) {
        Claim mine = claim;
        if (mine == null || mine.isKeptOn(on)) {
            send(on);
            return;
        }
        limit.set(deadline);
        keeper.rivals().keep(key, mine, on).whenComplete((others, thrown) -> {
            Throwable failure = thrown == null ? null : Line.unwrapped(thrown);
            if (failure instanceof ReplyError error) {
                movedAway(on, error);
                failed(error, true);
            } else if (failure != null) {
                failed(failure, false);
            } else if (others) {
                failOthers();
            } else {
                send(on);
            }
        });
    }

    private void failOthers() {
        isOthers = true;
        fail(new LockLostException(key + ": " + Rivals.WHY, null));
    }

    /** Whether it is sent now. */
    private synchronized boolean begins() {
        if (isOver) {
            return false; // whoever was told that it had not been sent relies on it
        }
        repeated = sent;
        sent = true;
        return true;
    }

    private void send(Line on) {
        synchronized (this) {
            if (!begins()) {
                return;
            }
            isSending = true;
            line = on;
        }
        CompletableFuture<Answer> reply = on.call(words);
        LockException reason;
        synchronized (this) {
            isSending = false;
            reason = ended;
        }
        if (reason != null) {
            fail(reason);
        }
        answered(reply);
    }

    private void answered(CompletableFuture<Answer> reply) {
        reply.whenComplete((answer, thrown) -> {
            if (thrown != null) {
                failed(thrown, false);
            } else if (answer.error() == null) {
                result(answer);
            } else if (Meaning.of(answer.error(), kind) != Meaning.PASSING) {
                fail(Meaning.of(answer.error(), kind).error(key, answer.error()));
            } else {
                movedAway(answer.line(), answer.error());
                failed(answer.error(), true);
            }
        });
    }

    /** Where the server has said that it does not serve the key, another one is looked for. */
    private void movedAway(Line line, ReplyError error) {
        String text = error.getMessage();
        core.refreshAfter(text);
        if (Meaning.isOfReplica(text)) {
            line.close(new IOException(text));
        }
    }

    /** A passing error is met by a pause, and so is a cluster that cannot be asked; else the keeper makes the pauses. */
    private void failed(Throwable thrown, boolean answered) {
        Throwable failure = Line.unwrapped(thrown);
        last = failure;
        Meaning meaning = Meaning.of(failure, kind);
        if (meaning != Meaning.PASSING) {
            fail(meaning.error(key, failure));
            return;
        }
        if (deadline != Long.MAX_VALUE && System.nanoTime() - deadline >= 0 && !Line.stoodStill(deadline)) {
            outOfTime();
            return;
        }
        limit.set(deadline);
        if (!answered && core.keeperNow(key) != null) {
            core.execute(this::attempt);
            return;
        }
        pause = Core.nextPause(pause);
        long left = deadline == Long.MAX_VALUE ? deadline : deadline - System.nanoTime();
        core.after(Core.pauseWithin(left, pause), this::attempt);
    }

    /** Ends it within a reply's time; at once where nothing was sent. */
    void hurry() {
        boolean isUnsent;
        synchronized (this) {
            isUnsent = !sent;
            isOver |= isUnsent;
        }
        if (isUnsent) {
            outOfTime();
        } else {
            limit.set(System.nanoTime() + core.settings().reply());
        }
    }

    private void outOfTime() {
        fail(Meaning.PASSING.error(key, last));
    }

    private void result(Answer answer) {
        core.calls.remove(this);
        result.complete(answer);
        limit.cancel();
    }

    private void fail(LockException error) {
        synchronized (this) {
            isOver = true;
            if (isSending) {
                ended = error;
                return; // told when it is sent: what takes it back comes behind it
            }
        }
        core.calls.remove(this);
        result.completeExceptionally(error);
        limit.cancel();
    }
}
