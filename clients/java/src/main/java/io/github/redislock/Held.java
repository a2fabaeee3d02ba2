package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** An ownership on one server, and what is known of it. */
final class Held extends Ownership {
    private final Core core;
    private final Owner by;
    private final Keeping keeping;
    /** Where it is kept, and others may act in its owner's name. */
    private final @Nullable Claim claim;
    /** The wait that gave it, with its connection, until the keeper takes it over. */
    private @Nullable Wait origin;
    private volatile Keeper keeper;
    private volatile long keep; // ms; 0: not kept
    private final Known known;
    private long end; // of a grant that is held for so long at most; 0: none
    private @Nullable Future<?> alarm;
    private final Entries entries;

    /** The answer is a keeper's, or where it is not yet kept, that of this wait. */
    Held(Core core, Keeper keeper, LockSpec spec, Owner by, Answer answer, @Nullable Wait origin) {
        this(core, keeper, spec, by, answer, (List<?>) Objects.requireNonNull(answer.reply()), origin);
    }

    /** It is held once here, also where an adopted owner has taken it more often. */
    private Held(Core core, Keeper keeper, LockSpec spec, Owner by, Answer answer, List<?> fields, @Nullable Wait origin) {
        super(core, spec, by.name(), (Long) fields.get(0), 1, by.task());
        this.core = core;
        this.by = by;
        this.keeper = keeper;
        this.origin = origin;
        boolean isKept = origin == null;
        keep = spec.keepMs();
        claim = Claim.of(by, spec, token(), isKept ? answer.line() : null);
        if (spec.atMost() != null) {
            end = (isKept ? answer.sent() : began()) + spec.atMost().toNanos();
        }
        known = new Known(answer);
        keeping = new Keeping(this, answer.line());
        entries = new Entries(core, this);
        core.held.add(this);
        if (keep == 0) {
            alarmAtEnd();
            return;
        }
        if (end != 0) {
            alarm = core.after(Math.max(0, end - known.lease() - System.nanoTime()), this::keepNoMore);
        }
        if (isKept) {
            keeper.add(this, answer.line());
        } else {
            core.takeovers.add(this, answer.sent() + known.lease() / 3);
        }
    }

    /** Whether others may act in its owner's name. */
    boolean isNamed() {
        return by.isNamed();
    }

    @Nullable Claim claim() {
        return claim;
    }

    /** Whether a keeper has to see to it, sooner or later. */
    boolean isKept() {
        return isHeld() && keep > 0;
    }

    long leaseNanos() {
        return known.lease();
    }

    /** How often a sign of it is wanted. */
    long pace() {
        return Math.min(known.shortest(), TimeUnit.MILLISECONDS.toNanos(keep)) / 3;
    }

    @Override
    long knownUntil() {
        long until = known.until(keep > 0);
        return end == 0 ? until : Known.sooner(until, end);
    }

    Keeper keeper() {
        return keeper;
    }

    /** Whose PONGs tell of it. */
    Line line() {
        return known.line();
    }

    void keptBy(Keeper home) {
        keeper = home;
    }

    /** The keeper takes it over now, where that was still to come. */
    private void takeOver() {
        if (core.takeovers.remove(this)) {
            handToKeeper();
        }
    }

    void handToKeeper() {
        leaveOrigin();
        keeper.adopt(this);
    }

    private synchronized @Nullable Wait takeOrigin() {
        Wait mine = origin;
        origin = null;
        return mine;
    }

    private void leaveOrigin() {
        Wait mine = takeOrigin();
        if (mine != null) {
            mine.giveBack();
        }
    }

    /** Asks for it to be kept on this line. */
    CompletableFuture<Answer> renewOn(Line on) {
        return keeping.renewOn(on);
    }

    /** What has it kept. */
    Words renewal() {
        return renew().and("KEEP", keep);
    }

    private Words renew() {
        return Words.of("LOCK.RENEW", key(), owner(), "TOKEN", token());
    }

    /** An answer that tells of it. */
    synchronized void renewed(Answer answer) {
        known.renewed(answer);
        if (keep == 0 && isHeld()) {
            alarmAtEnd();
        }
    }

    /** The same of an answer to a call that has it kept there. */
    synchronized void kept(Answer answer) {
        if (claim != null && keep > 0) {
            claim.keptOn(answer.line());
        }
        renewed(answer);
    }

    private synchronized void alarmAtEnd() {
        cancelAlarm();
        alarm = core.after(Math.max(0, knownUntil() - System.nanoTime()), () -> {
            if (knownUntil() - System.nanoTime() > 0) {
                return;
            }
            if (end != 0) {
                giveUp("its time was over", core.settings().release()); // after a late renewal it may stand for longer
            } else {
                lose(new IOException("its time was over"));
            }
        });
    }

    private synchronized void cancelAlarm() {
        if (alarm != null) {
            alarm.cancel(false);
        }
    }

    /** No more than a lease is left of the time for which it is held at most. */
    private void keepNoMore() {
        if (!isHeld()) {
            return;
        }
        Claim last;
        synchronized (this) {
            known.isKeptNoMore();
            keep = 0;
            last = claim == null ? null : claim.end();
        }
        core.takeovers.remove(this);
        leaveOrigin();
        keeper.remove(this);
        alarmAtEnd();
        long rest = Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
        Call call = new Call(core, key(), Kind.RENEW, end, renew().and("PX", rest, "KEEP", 0), last);
        keeping.end(call).whenComplete((answer, failure) -> {
            if (failure == null) {
                renewed(answer);
            } else if (Line.unwrapped(failure) instanceof LockLostException lost) {
                lose(lost);
            } else {
                keeper.replace(keeping.line()); // so that nobody keeps it
            }
        });
    }

    /** No sign of it has come for so long that it counts as lost. */
    void unheard() {
        giveUp("no sign of it for a whole lease", Math.max(core.settings().release(), TimeUnit.MILLISECONDS.toNanos(keep)));
    }

    /**
     * Lost by the clock, while the server may have it yet, for nobody: in the background it is given back. Not in a name
     * that comes back: that may have got the same grant again meanwhile.
     */
    private void giveUp(String why, long limit) {
        if (!isHeld()) {
            return;
        }
        if (by.task() != null) {
            by.task().leaveOwner(by.name());
        }
        lose(new IOException(why));
        if (!isNamed()) {
            releaseUntil(System.nanoTime() + limit, 0).start();
        }
    }

    @Override
    void over() {
        cancelAlarm();
        core.takeovers.remove(this);
        leaveOrigin();
        keeper.remove(this);
        core.held.remove(this);
    }

    @Override
    CompletableFuture<?> enter(LockSpec spec, int wanted, long deadline) {
        takeOver();
        return entries.enter(spec, wanted, deadline);
    }

    Entries entries() {
        return entries;
    }

    /** An answer to that, in which the server was to bear this silence; 0: it was not to keep it there. */
    void entered(Answer answer, long keepMs) {
        synchronized (this) {
            if (keep > 0) {
                keep = Math.max(keep, keepMs); // so does the server
            }
        }
        if (keep > 0 && answer.line() != known.line()) {
            keeper.add(this, answer.line());
        }
        if (keepMs > 0) {
            kept(answer);
        } else {
            renewed(answer);
        }
        throwWhereLost(answer);
    }

    /** What is kept no more gets no lease beyond its end. */
    Duration within(Duration lease) {
        Duration rest = Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime()));
        return end == 0 || keep > 0 || rest.compareTo(lease) > 0 ? lease : rest;
    }

    /** Lost by the clock, before this answer came: the server may have it yet, for nobody. */
    private void throwWhereLost(Answer answer) {
        LockLostException lost = loss();
        if (lost == null) {
            return;
        }
        if (claim == null) {
            releaseTo(0).start();
        } else if (claim.isKeptOn(answer.line())) {
            new Undo(core, key(), by).send(token(), answer.line()); // what nobody keeps ends with its lease
        }
        throw again(lost);
    }

    @Override
    CompletableFuture<@Nullable Void> giveBack(int left, Caller caller, long deadline) {
        Call call = releaseUntil(deadline, left);
        return send(call, caller).handle((answer, failure) -> {
            if (failure == null) {
                return null;
            }
            LockException error = (LockException) Line.unwrapped(failure);
            if (error instanceof LockLostException) {
                if (left == 0 && call.wasRepeated() && !call.isOthers()) {
                    return null; // the first had been carried out
                }
                lose(error);
            } else if (left == 0 && keep > 0) {
                keeper.replace(keeping.line()); // so that the lock comes free a lease later
            }
            throw error;
        });
    }

    /** On the connection on which it came, where it is still there: another may lead to another server. */
    private CompletableFuture<Answer> send(Call release, Caller caller) {
        Wait mine = takeOrigin();
        if (mine == null) {
            return release.start();
        }
        if (mine.isOpen()) {
            return release.startOn(mine, caller);
        }
        mine.giveBack();
        return release.start();
    }

    Call releaseTo(int left) {
        return releaseUntil(System.nanoTime() + core.settings().release(), left);
    }

    private Call releaseUntil(long deadline, int left) {
        return new Call(core, key(), Kind.RELEASE, deadline,
                Words.of("LOCK.RELEASE", key(), owner(), "HOLDS", left, "TOKEN", token()), claim);
    }

    @Override
    CompletableFuture<@Nullable Void> check() {
        takeOver();
        if (keep == 0) {
            return fence();
        }
        CompletableFuture<@Nullable Void> pinged = new Check(core, this).begin();
        return isNamed() ? pinged.thenCombine(fence(), (ponged, fenced) -> null) : pinged;
    }

    /** Of a release in the owner's name by somebody else no connection tells. */
    private CompletableFuture<@Nullable Void> fence() {
        return ask(new Call(core, key(), Kind.RENEW, System.nanoTime() + core.settings().reply(),
                Words.of("LOCK.FENCE", key(), token())), this::renewed);
    }

    @Override
    CompletableFuture<@Nullable Void> extend(Duration wanted) {
        takeOver();
        Duration most = within(wanted);
        Words words = renew().and("PX", most.toMillis());
        boolean isKept = keep > 0;
        Call call = renewalUntil(System.nanoTime() + core.settings().reply(), isKept ? words.and("KEEP", keep) : words);
        Known.Asked asked = known.asks(most.toNanos());
        leaseChanged();
        return ask(call, isKept ? this::kept : this::renewed).whenComplete((nothing, failure) -> {
            boolean mayHave = failure != null && call.wasSent()
                    && Line.unwrapped(failure) instanceof LockUnavailableException;
            known.answered(asked, mayHave, keep > 0);
            leaseChanged();
        });
    }

    private void leaseChanged() {
        if (keep > 0) {
            keeper.paceChanged(this);
        } else if (isHeld()) {
            alarmAtEnd();
        }
    }

    @Override
    CompletableFuture<@Nullable Void> leave(Duration lease) {
        boolean wasKept = keep > 0;
        Words words = renew().and("PX", Math.max(1, lease.toMillis()));
        Call call = renewalUntil(System.nanoTime() + core.settings().release(), wasKept ? words.and("KEEP", 0) : words);
        return keeping.end(call).handle((answer, failure) -> {
            if (failure == null) {
                return null;
            }
            LockException error = (LockException) Line.unwrapped(failure);
            if (wasKept && !(error instanceof LockLostException)) {
                keeper.replace(keeping.line()); // so that nobody keeps it
            }
            throw error;
        });
    }

    @Override
    CompletableFuture<@Nullable Void> share() {
        takeOver();
        return ask(renewalUntil(System.nanoTime() + core.settings().reply(), renew().and("SHARED")), this::renewed);
    }

    private Call renewalUntil(long deadline, Words words) {
        return new Call(core, key(), Kind.RENEW, deadline, words, claim);
    }

    private CompletableFuture<@Nullable Void> ask(Call call, Consumer<Answer> learn) {
        return call.start().handle((answer, failure) -> {
            LockException error = failure == null ? null : (LockException) Line.unwrapped(failure);
            if (error instanceof LockLostException) {
                throw lose(error);
            }
            if (error != null) {
                throw error;
            }
            if (answer.reply() instanceof List<?>) {
                learn.accept(answer);
                throwWhereLost(answer);
                keeper.paceChanged(this);
            }
            return null;
        });
    }
}
