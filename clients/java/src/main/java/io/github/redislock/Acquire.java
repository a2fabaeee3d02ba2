package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One call for a new grant: a try on the keeper, then one wait in line, then the keeping. */
final class Acquire {
    /** A wait without an end. */
    static final long FOR_EVER = Long.MAX_VALUE;
    private static final long MILLISECOND = TimeUnit.MILLISECONDS.toNanos(1);

    /** Where it stands, and so what ends it. */
    private enum Stage { PAUSING, CALLING, WAITING }

    private final Core core;
    private final LockSpec spec;
    private final Owner owner;
    private final long wait;
    private final Caller caller;
    private final long begun = System.nanoTime();
    private final CompletableFuture<Ownership> result = new CompletableFuture<>();
    private Stage stage = Stage.PAUSING;
    private volatile @Nullable Throwable verdict;
    private @Nullable Call call;
    private @Nullable Wait inLine;
    private final TimeLimit limit;
    private boolean fateUnknown;
    private boolean isUnanswered; // a call before the last one
    private volatile @Nullable Line asked; // the keeper's, where it was asked last; null: a wait came later
    private volatile long token; // of a grant that has come; 0: none
    private volatile @Nullable Undo undo;
    private boolean isGranted; // from then on nothing ends it
    private boolean isReleasing;
    private final CompletableFuture<@Nullable Void> calledOff = new CompletableFuture<>();
    private long pause;

    /** The wait is in nanoseconds; 0 is now or not at all, and below it so much of the time for that is over. */
    Acquire(Core core, LockSpec spec, Owner owner, long wait, Caller caller) {
        this.core = core;
        this.spec = spec;
        this.owner = owner;
        this.wait = wait;
        this.caller = caller;
        limit = new TimeLimit(core, () -> end(Meaning.PASSING.error(spec.key(), null)));
    }

    CompletableFuture<Ownership> result() {
        return result;
    }

    private long waitedSoFar() {
        return System.nanoTime() - begun;
    }

    private long left() {
        return wait == FOR_EVER ? FOR_EVER : wait - waitedSoFar();
    }

    Acquire begin() {
        core.acquires.add(this);
        if (core.isClosed()) {
            finish(Core.closedError());
        } else if (owner.isNamed() && spec.replicas() > 0) {
            core.keeper(spec.key()).thenCompose(Keeper::line).thenCompose(Line::ping)
                    .whenComplete((pong, failure) -> waitInLine()); // behind what is undone in this name
        } else if (spec.replicas() > 0 || wait > 0 && core.isAwaited(spec.key()) && !owner.isNamed()) {
            waitInLine();
        } else {
            tryOnKeeper();
        }
        return this;
    }

    private void tryOnKeeper() {
        long reply = core.settings().reply();
        long deadline = wait == FOR_EVER ? FOR_EVER : begun + (wait > 0 ? Math.max(wait, reply) : reply + wait);
        Words words = spec.acquire(owner.name(), true).and("HOLDS", 1);
        start(new Call(core, spec.key(), Kind.ACQUIRE, deadline, words), (answer, failure) -> {
            if (failure != null) {
                failed(failure);
            } else if (answer.reply() != null) {
                granted(answer, null);
            } else if (!settle()) {
                fateUnknown = false;
                busyOrWait();
            }
        });
    }

    private interface Next {
        void on(Answer answer, @Nullable LockException failure);
    }

    private void start(Call made, Next next) {
        synchronized (this) {
            if (verdict == null) {
                stage = Stage.CALLING;
                call = made;
            }
        }
        if (settle()) {
            return;
        }
        made.start().whenComplete((answer, thrown) -> {
            synchronized (this) {
                stage = Stage.PAUSING;
                fateUnknown |= made.wasSent();
                asked = made.line();
                isUnanswered |= made.wasRepeated();
            }
            next.on(answer, thrown == null ? null : (LockException) Line.unwrapped(thrown));
        });
    }

    private void busyOrWait() {
        if (left() >= MILLISECOND) { // the shortest wait that can be asked for
            waitInLine();
        } else {
            finish(new LockBusyException(spec.key() + ": others hold the lock, or are in line", null));
        }
    }

    private void waitInLine() {
        limit.set(wait == FOR_EVER ? FOR_EVER : begun + wait + core.settings().reply());
        new Wait(core, spec.key(), spec.lease().toNanos() / 3).open().whenComplete((opened, thrown) -> {
            if (thrown == null) {
                waitOn(opened);
            } else {
                waitFailed(Line.unwrapped(thrown));
            }
        });
    }

    private void waitOn(Wait opened) {
        long left = left();
        boolean isOver;
        synchronized (this) {
            isOver = verdict != null;
            if (!isOver) {
                stage = Stage.WAITING;
                inLine = opened;
                fateUnknown = true;
                asked = null;
            }
        }
        if (isOver) {
            opened.withdraw();
            return; // settled by who has ended it
        }
        Words words = spec.acquire(owner.name(), false).and("HOLDS", 1);
        if (wait > 0) {
            words.and("BLOCK", left == FOR_EVER ? 0 : Math.max(1, TimeUnit.NANOSECONDS.toMillis(left + MILLISECOND - 1)));
        }
        opened.await(words, caller).whenComplete((answer, thrown) -> {
            boolean isCalledOff;
            synchronized (this) {
                stage = Stage.PAUSING;
                isCalledOff = verdict != null;
            }
            if (isCalledOff) {
                answeredAfterAll(opened, thrown == null ? answer : null);
            } else if (thrown != null) {
                isUnanswered = true;
                waitFailed(Line.unwrapped(thrown));
            } else {
                answered(opened, answer);
            }
        });
    }

    /**
     * A grant that came in between was released by the call that called the wait off; but where that call had
     * overtaken the wait, on another connection, the grant is still to be released.
     */
    private void answeredAfterAll(Wait over, @Nullable Answer answer) {
        if (answer == null) {
            finish(Objects.requireNonNull(verdict));
            return;
        }
        calledOff.whenComplete((done, failure) -> {
            over.giveBack();
            if (answer.error() == null && answer.reply() != null) {
                token = tokenOf(answer);
                releaseAndFinish(Objects.requireNonNull(verdict));
            } else {
                finish(Objects.requireNonNull(verdict));
            }
        });
    }

    private void answered(Wait over, Answer answer) {
        if (answer.error() == null && answer.reply() != null && spec.replicas() > 0) {
            acknowledge(over, answer);
            return;
        }
        boolean isEarly = spec.keepMs() > 0 && System.nanoTime() - answer.sent() < spec.lease().toNanos() / 3;
        if (answer.error() == null && answer.reply() != null && isEarly) {
            granted(answer, over); // with its connection
            return;
        }
        over.giveBackAfter(answer.error());
        if (answer.error() != null) {
            waitFailed(answer.error());
        } else if (answer.reply() == null) {
            fateUnknown = false;
            busyOrWait();
        } else {
            keep(answer);
        }
    }

    /** Waits behind the grant, on its own connection, until so many replicas have it. */
    private void acknowledge(Wait over, Answer granted) {
        token = tokenOf(granted);
        Replicas.acknowledge(spec, over).whenComplete((nothing, thrown) -> {
            if (settle()) {
                return;
            }
            if (thrown == null) {
                keep(granted);
            } else {
                releaseBefore(Line.unwrapped(thrown));
            }
        });
    }

    /** The grant of a wait is kept, or its lease begins anew, by a call on the keeper. */
    private void keep(Answer granted) {
        token = tokenOf(granted);
        Words words = Words.of("LOCK.RENEW", spec.key(), owner.name(), "TOKEN", token);
        long deadline = System.nanoTime() + core.settings().reply();
        // For replicas nothing has asked to keep it yet.
        Claim claim = spec.replicas() > 0 ? null : Claim.of(owner, spec, token, null);
        Call call = new Call(core, spec.key(), Kind.RENEW, deadline,
                spec.keepMs() > 0 ? words.and("KEEP", spec.keepMs()) : words, claim);
        start(call, (answer, failure) -> {
            if (failure == null) {
                granted(answer, null);
            } else if (failure instanceof LockLostException && !settle()) {
                fateUnknown = false;
                token = 0;
                if (call.isOthers()) {
                    afterPause(this::busyOrWait); // who asks again enters, and may find the same
                } else {
                    busyOrWait(); // it came and went unseen
                }
            } else {
                failed(failure);
            }
        });
    }

    /** Tells it to the caller. What a wait has given, and nobody keeps yet, is known from the sending of that. */
    private void granted(Answer answer, @Nullable Wait origin) {
        token = tokenOf(answer);
        Throwable ended;
        synchronized (this) {
            ended = verdict;
            isGranted = ended == null;
        }
        if (ended != null) {
            if (origin != null) {
                origin.giveBack();
            }
            releaseAndFinish(ended);
            return;
        }
        Held held = new Held(core, core.keeperOf(spec.key(), answer), spec, owner, answer, origin);
        if (core.isClosed()) { // and did not know of it
            held.close();
            finish(Core.closedError());
            return;
        }
        forget();
        core.observer().acquired(spec.key(), Duration.ofNanos(waitedSoFar()));
        if (!result.complete(held)) {
            held.release();
        }
    }

    private void failed(LockException failure) {
        if (settle()) {
            return;
        }
        if (failure instanceof LockUnavailableException && fateUnknown || isUnanswered) {
            releaseBefore(failure);
        } else {
            finish(failure);
        }
    }

    /** In a name that comes back nothing is sent once the caller is told: where it is looked before, that is waited for. */
    private void releaseBefore(Throwable failure) {
        if (owner.isNamed() && asked == null) {
            releaseAndFinish(failure);
        } else {
            release();
            finish(failure);
        }
    }

    /** What passes is tried again, with the same owner, while there is time. */
    private void waitFailed(Throwable why) {
        if (settle()) {
            return;
        }
        Meaning meaning = Meaning.of(why, Kind.ACQUIRE);
        if (meaning != Meaning.PASSING || wait <= 0 || left() <= Core.LEAST_PAUSE) {
            failed(meaning.error(spec.key(), why));
            return;
        }
        core.refreshAfter(String.valueOf(why.getMessage()));
        afterPause(this::waitInLine);
    }

    private void afterPause(Runnable next) {
        pause = Core.nextPause(pause);
        core.after(Core.pauseWithin(left(), pause), () -> {
            if (!settle()) {
                next.run();
            }
        });
    }

    /** Ends it: cancelled, out of time, or closed. Leaves neither a hold nor a wait. */
    void end(Throwable reason) {
        Stage at;
        Call made;
        Wait waiting;
        synchronized (this) {
            if (verdict != null || isGranted || result.isDone()) {
                return;
            }
            verdict = reason;
            at = stage;
            made = call;
            waiting = inLine;
        }
        switch (at) {
            case CALLING -> Objects.requireNonNull(made).hurry();
            case PAUSING -> settle();
            case WAITING -> {
                release().whenComplete((answer, failure) -> calledOff.complete(null));
                core.after(core.settings().reply(), () -> {
                    Objects.requireNonNull(waiting).drop(new IOException("called off"));
                    finish(Objects.requireNonNull(verdict));
                });
            }
        }
    }

    /** Whether it has been ended meanwhile; then it is finished. */
    private boolean settle() {
        Throwable ended;
        synchronized (this) {
            ended = verdict;
        }
        if (ended == null) {
            return result.isDone();
        }
        if (fateUnknown) {
            releaseAndFinish(ended);
        } else {
            finish(ended);
        }
        return true;
    }

    /** Who is told that it was called off can rely on the lock's being free, where the server answers in time. */
    private void releaseAndFinish(Throwable ended) {
        synchronized (this) {
            if (isReleasing || result.isDone()) {
                return;
            }
            isReleasing = true;
        }
        core.after(core.settings().reply(), () -> finish(ended));
        release().whenComplete((answer, failure) -> finish(ended));
    }

    private static long tokenOf(Answer granted) {
        return (Long) ((List<?>) Objects.requireNonNull(granted.reply())).get(0);
    }

    /** After it the owner neither holds nor waits. Is carried on in the background. */
    private CompletableFuture<?> release() {
        Undo made = new Undo(core, spec.key(), owner);
        undo = made;
        return made.send(token, asked);
    }

    private void finish(Throwable failure) {
        forget();
        Undo last = undo;
        if (last != null) {
            last.told();
        }
        if (last != null && last.mayComeLate() && owner.task() != null) {
            owner.task().leaveOwner(owner.name());
        }
        if (result.completeExceptionally(failure)) {
            core.observer().refused(spec.key(), Duration.ofNanos(waitedSoFar()), failure);
        }
    }

    /** All connections are gone. */
    void abandon(Throwable reason) {
        finish(reason);
    }

    private void forget() {
        core.acquires.remove(this);
        limit.cancel();
    }
}
