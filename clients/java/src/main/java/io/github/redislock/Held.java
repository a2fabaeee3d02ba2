package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** An ownership on one server, and what is known of it. */
final class Held extends Ownership {
    private final Core core;
    private final Keeping keeping;
    /** The wait that gave it, with its connection, until the keeper takes it over. */
    private @Nullable Wait origin;
    private volatile Keeper keeper;
    private volatile long keep; // ms; 0: not kept
    private volatile long lease;
    private volatile long proven;
    private volatile Line line;
    private long end; // of a grant that is held for so long at most; 0: none
    private @Nullable Future<?> alarm;

    /** The answer is a keeper's, or where it is not yet kept, that of this wait. */
    Held(Core core, Keeper keeper, LockSpec spec, String owner, Answer answer, @Nullable Wait origin,
            @Nullable Task task) {
        this(core, keeper, spec, owner, answer, (List<?>) Objects.requireNonNull(answer.reply()), origin, task);
    }

    private Held(Core core, Keeper keeper, LockSpec spec, String owner, Answer answer, List<?> fields,
            @Nullable Wait origin, @Nullable Task task) {
        super(core, spec, owner, (Long) fields.get(0), Math.toIntExact((Long) fields.get(2)), task);
        this.core = core;
        this.keeper = keeper;
        this.origin = origin;
        boolean isKept = origin == null;
        keep = spec.keepMs();
        lease = TimeUnit.MILLISECONDS.toNanos((Long) fields.get(3));
        proven = answer.sent();
        line = answer.line();
        keeping = new Keeping(this, line);
        core.held.add(this);
        if (keep == 0) {
            alarmAtEnd();
            return;
        }
        if (spec.atMost() != null) {
            end = (isKept ? proven : began()) + spec.atMost().toNanos();
            alarm = core.after(Math.max(0, end - lease - System.nanoTime()), this::keepNoMore);
        }
        if (isKept) {
            keeper.add(this, line);
        } else {
            core.takeovers.add(this, proven + lease / 3);
        }
    }

    /** Whether a keeper has to see to it, sooner or later. */
    boolean isKept() {
        return isHeld() && keep > 0;
    }

    long leaseNanos() {
        return lease;
    }

    /** How often a sign of it is wanted. */
    long pace() {
        return Math.min(lease, TimeUnit.MILLISECONDS.toNanos(keep)) / 3;
    }

    @Override
    long knownUntil() {
        long until = (keep == 0 ? proven : line.provenSince(proven)) + lease;
        return end != 0 && end - until < 0 ? end : until;
    }

    Keeper keeper() {
        return keeper;
    }

    /** Whose PONGs tell of it. */
    Line line() {
        return line;
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
        List<?> fields = (List<?>) Objects.requireNonNull(answer.reply());
        if (answer.sent() - proven > 0) {
            proven = answer.sent();
        }
        lease = TimeUnit.MILLISECONDS.toNanos((Long) fields.get(3));
        line = answer.line();
        if (keep == 0 && isHeld()) {
            alarmAtEnd();
        }
    }

    private synchronized void alarmAtEnd() {
        cancelAlarm();
        alarm = core.after(Math.max(0, knownUntil() - System.nanoTime()), () -> {
            if (knownUntil() - System.nanoTime() <= 0) {
                lose(new java.io.IOException("its time was over"));
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
        synchronized (this) {
            proven = line.provenSince(proven);
            keep = 0;
        }
        core.takeovers.remove(this);
        leaveOrigin();
        keeper.remove(this);
        alarmAtEnd();
        long rest = Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
        keeping.end(renewalUntil(end, renew().and("PX", rest, "KEEP", 0))).whenComplete((answer, failure) -> {
            if (failure != null && Line.unwrapped(failure) instanceof LockLostException lost) {
                lose(lost);
            } else if (failure == null) {
                renewed(answer);
            }
        });
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
        Call call = new Call(core, key(), Kind.ACQUIRE, deadline, spec.acquire(owner(), keep > 0)
                .and("HOLDS", wanted, "TOKEN", token()));
        return call.start().handle((answer, failure) -> {
            if (failure == null) {
                if (answer.reply() == null) {
                    throw new LockBusyException(key() + ": others have room before this call", null);
                }
                if (keep > 0 && answer.line() != line) {
                    keeper.add(this, answer.line());
                }
                renewed(answer);
                return this;
            }
            LockException error = (LockException) Line.unwrapped(failure);
            if (error instanceof LockLostException) {
                lose(error);
            } else if (error instanceof LockUnavailableException && call.wasSent()) {
                releaseTo(wanted - 1).start();
            }
            throw error;
        });
    }

    @Override
    CompletableFuture<@Nullable Void> giveBack(int left, Caller caller) {
        Call call = releaseTo(left);
        return send(call, caller).handle((answer, failure) -> {
            if (failure == null) {
                return null;
            }
            LockException error = (LockException) Line.unwrapped(failure);
            if (error instanceof LockLostException) {
                if (left == 0 && call.wasRepeated()) {
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

    private Call releaseTo(int left) {
        return new Call(core, key(), Kind.RELEASE, System.nanoTime() + core.settings().release(),
                Words.of("LOCK.RELEASE", key(), owner(), "HOLDS", left, "TOKEN", token()));
    }

    @Override
    CompletableFuture<@Nullable Void> check() {
        takeOver();
        return keep > 0 ? new Check(core, this).begin() : ask(Words.of("LOCK.FENCE", key(), token()));
    }

    @Override
    CompletableFuture<@Nullable Void> extend(Duration lease) {
        takeOver();
        Words words = renew().and("PX", lease.toMillis());
        return ask(keep > 0 ? words.and("KEEP", keep) : words);
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
        return ask(renew().and("SHARED"));
    }

    private Call renewalUntil(long deadline, Words words) {
        return new Call(core, key(), Kind.RENEW, deadline, words);
    }

    private CompletableFuture<@Nullable Void> ask(Words words) {
        return renewalUntil(System.nanoTime() + core.settings().reply(), words).start().handle((answer, failure) -> {
            LockException error = failure == null ? null : (LockException) Line.unwrapped(failure);
            if (error instanceof LockLostException) {
                lose(error);
            }
            if (error != null) {
                throw error;
            }
            if (answer.reply() instanceof List<?>) {
                renewed(answer);
            }
            return null;
        });
    }
}
