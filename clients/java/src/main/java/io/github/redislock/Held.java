package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** One unbroken ownership, and what is known of it. All its holds end with it. */
final class Held {
    private enum State { HELD, RELEASED, LOST }

    private final Core core;
    private final String key;
    private final String owner;
    private final long token;
    private final long began = System.nanoTime();
    private final @Nullable Task task;
    private final List<Consumer<LockLostException>> listeners = new ArrayList<>();
    private volatile Keeper keeper;
    private volatile long keep; // ms; 0: not kept
    private volatile long lease;
    private volatile long proven;
    private volatile Line line;
    private volatile State state = State.HELD;
    private volatile @Nullable LockLostException loss;
    private volatile int holds;
    private volatile boolean exclusive;
    /** Of the holds, those that a read lock counts. */
    int readers;
    private long end; // of a grant that is held for so long at most; 0: none
    private @Nullable Future<?> alarm;
    private CompletableFuture<?> tail = CompletableFuture.completedFuture(null);

    Held(Core core, Keeper keeper, LockSpec spec, String owner, Answer answer, @Nullable Task task) {
        this.core = core;
        this.keeper = keeper;
        this.key = spec.key();
        this.owner = owner;
        this.task = task;
        keep = spec.keepMs();
        exclusive = spec.isExclusive();
        List<?> fields = (List<?>) Objects.requireNonNull(answer.reply());
        token = (Long) fields.get(0);
        holds = Math.toIntExact((Long) fields.get(2));
        lease = TimeUnit.MILLISECONDS.toNanos((Long) fields.get(3));
        proven = answer.sent();
        line = answer.line();
        core.held.add(this);
        if (keep == 0) {
            alarmAtEnd();
            return;
        }
        if (spec.atMost() != null) {
            end = proven + spec.atMost().toNanos();
            alarm = core.after(Math.max(0, end - lease - System.nanoTime()), this::keepNoMore);
        }
        keeper.add(this, line);
    }

    String key() {
        return key;
    }

    String owner() {
        return owner;
    }

    long token() {
        return token;
    }

    int holds() {
        return holds;
    }

    boolean isExclusive() {
        return exclusive;
    }

    boolean isHeld() {
        return state == State.HELD;
    }

    @Nullable LockLostException loss() {
        return loss;
    }

    long leaseNanos() {
        return lease;
    }

    /** How often a sign of it is wanted. */
    long pace() {
        return Math.min(lease, TimeUnit.MILLISECONDS.toNanos(keep)) / 3;
    }

    /** Past this it is lost. */
    long knownUntil() {
        long until = (keep == 0 ? proven : line.provenSince(proven)) + lease;
        return end != 0 && end - until < 0 ? end : until;
    }

    Duration remaining() {
        return Duration.ofNanos(isHeld() ? Math.max(0, knownUntil() - System.nanoTime()) : 0);
    }

    void keptBy(Keeper home) {
        keeper = home;
    }

    /** What a new keeper sends for it. */
    Words renewal() {
        return renew().and("KEEP", keep);
    }

    private Words renew() {
        return Words.of("LOCK.RENEW", key, owner, "TOKEN", token);
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
        keeper.remove(this);
        synchronized (this) {
            proven = line.provenSince(proven);
            keep = 0;
        }
        alarmAtEnd();
        long rest = Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
        new Call(core, key, Kind.RENEW, end, renew().and("PX", rest, "KEEP", 0)).start().whenComplete((answer, failure) -> {
            if (failure instanceof LockLostException) {
                lose(failure);
            } else if (failure == null) {
                renewed(answer);
            }
        });
    }

    void onLost(Consumer<LockLostException> listener) {
        LockLostException told;
        synchronized (this) {
            told = loss;
            if (told == null) {
                listeners.add(listener);
                return;
            }
        }
        LockLostException error = told;
        core.execute(() -> listener.accept(error));
    }

    synchronized void removeListener(Consumer<LockLostException> listener) {
        listeners.remove(listener);
    }

    /** Tells its loss, once. */
    void lose(Throwable why) {
        List<Consumer<LockLostException>> told;
        LockLostException error = why instanceof LockLostException lost ? lost
                : new LockLostException(key + ": " + why.getMessage(), why);
        synchronized (this) {
            if (state != State.HELD) {
                return;
            }
            loss = error;
            state = State.LOST;
            told = new ArrayList<>(listeners);
            listeners.clear();
        }
        over();
        core.observer().lost(key, Duration.ofNanos(System.nanoTime() - began));
        told.forEach(listener -> core.execute(() -> listener.accept(error)));
    }

    private void over() {
        cancelAlarm();
        keeper.remove(this);
        core.held.remove(this);
    }

    /** One operation after the other, for holds that are added and given back by several threads of a task. */
    private synchronized <T> CompletableFuture<T> inTurn(Supplier<CompletableFuture<T>> operation) {
        CompletableFuture<T> next = tail.isDone() ? operation.get()
                : tail.handle((result, failure) -> operation).thenCompose(Supplier::get);
        tail = next;
        return next;
    }

    /** Adds a hold. */
    CompletableFuture<Held> enterAgain(LockSpec spec, long deadline) {
        return inTurn(() -> {
            LockLostException lost = loss;
            if (lost != null) {
                return CompletableFuture.failedFuture(again(lost));
            }
            int wanted = holds + 1;
            Call call = new Call(core, key, Kind.ACQUIRE, deadline, spec.acquire(owner, keep > 0)
                    .and("HOLDS", wanted, "TOKEN", token));
            return call.start().handle((answer, failure) -> {
                if (failure == null) {
                    if (answer.reply() == null) {
                        throw new LockBusyException(key + ": others have room before this call", null);
                    }
                    holds = wanted;
                    exclusive |= spec.isExclusive();
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
                    new Call(core, key, Kind.RELEASE, System.nanoTime() + core.settings().release(),
                            Words.of("LOCK.RELEASE", key, owner, "HOLDS", wanted - 1, "TOKEN", token)).start();
                }
                throw error;
            });
        });
    }

    /** Told again, with the place where it is told. */
    static LockLostException again(LockLostException lost) {
        return new LockLostException(lost.getMessage(), lost);
    }

    /** Gives back one hold; the last one ends the grant. */
    CompletableFuture<@Nullable Void> release() {
        return task == null ? releaseOne() : inTurn(this::releaseOne);
    }

    private CompletableFuture<@Nullable Void> releaseOne() {
        int left;
        boolean wasHeld;
        synchronized (this) {
            left = --holds;
            wasHeld = isHeld();
            if (left == 0 && wasHeld) {
                state = State.RELEASED;
            }
        }
        if (left == 0 && task != null) {
            task.forget(this);
        }
        LockLostException lost = loss;
        if (lost != null) {
            return CompletableFuture.failedFuture(again(lost));
        }
        if (left == 0) {
            over();
            core.observer().released(key, Duration.ofNanos(System.nanoTime() - began));
        }
        return giveBack(left);
    }

    private CompletableFuture<@Nullable Void> giveBack(int left) {
        Line keptOn = line;
        Call call = new Call(core, key, Kind.RELEASE, System.nanoTime() + core.settings().release(),
                Words.of("LOCK.RELEASE", key, owner, "HOLDS", left, "TOKEN", token));
        return call.start().handle((answer, failure) -> {
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
                keeper.replace(keptOn); // so that the lock comes free a lease later
            }
            throw error;
        });
    }

    /** Ends it with its client: whoever works under it is told. */
    CompletableFuture<@Nullable Void> close() {
        if (!isHeld()) {
            return CompletableFuture.completedFuture(null);
        }
        lose(new LockLostException(key + ": the locks are closed", null));
        return giveBack(0).exceptionally(failure -> null);
    }

    /** Asks the server. */
    CompletableFuture<@Nullable Void> check() {
        long deadline = System.nanoTime() + core.settings().reply();
        if (keep > 0) {
            CompletableFuture<@Nullable Void> result = new CompletableFuture<>();
            Future<?> over = core.after(core.settings().reply(), () -> result.completeExceptionally(
                    Meaning.PASSING.error(key, null)));
            ping(result);
            return result.whenComplete((nothing, failure) -> over.cancel(false));
        }
        return told(new Call(core, key, Kind.RENEW, deadline, Words.of("LOCK.FENCE", key, token)).start());
    }

    /** A PONG of the line on which it is kept tells. */
    private void ping(CompletableFuture<@Nullable Void> result) {
        if (settled(result)) {
            return;
        }
        keeper.line().thenCompose(Line::ping).whenComplete((answer, failure) -> {
            if (failure == null && answer.error() == null && answer.line() == line) {
                if (!settled(result)) {
                    result.complete(null);
                }
            } else {
                core.after(TimeUnit.MILLISECONDS.toNanos(20), () -> ping(result));
            }
        });
    }

    private boolean settled(CompletableFuture<@Nullable Void> result) {
        LockLostException lost = loss;
        if (lost != null) {
            result.completeExceptionally(again(lost));
        } else if (!isHeld()) {
            result.completeExceptionally(new LockMisuseException(key + ": released already", null));
        }
        return result.isDone();
    }

    /** Gives it another lease, from now on. */
    CompletableFuture<@Nullable Void> extend(Duration lease) {
        Words words = renew().and("PX", lease.toMillis());
        return told(new Call(core, key, Kind.RENEW, System.nanoTime() + core.settings().reply(),
                keep > 0 ? words.and("KEEP", keep) : words).start());
    }

    /** Leaves it to this lease. */
    CompletableFuture<@Nullable Void> detach(Duration lease) {
        boolean wasKept = keep > 0;
        Line keptOn = line;
        synchronized (this) {
            LockLostException lost = loss;
            if (lost != null) {
                return CompletableFuture.failedFuture(again(lost));
            }
            state = State.RELEASED;
        }
        if (task != null) {
            task.forget(this);
        }
        over();
        core.observer().released(key, Duration.ofNanos(System.nanoTime() - began));
        Words words = renew().and("PX", Math.max(1, lease.toMillis()));
        return new Call(core, key, Kind.RENEW, System.nanoTime() + core.settings().release(),
                wasKept ? words.and("KEEP", 0) : words).start().handle((answer, failure) -> {
                    if (failure == null) {
                        return null;
                    }
                    LockException error = (LockException) Line.unwrapped(failure);
                    if (wasKept && !(error instanceof LockLostException)) {
                        keeper.replace(keptOn); // so that nobody keeps it
                    }
                    throw error;
                });
    }

    /** Lets others in who share. */
    CompletableFuture<@Nullable Void> downgrade() {
        return told(new Call(core, key, Kind.RENEW, System.nanoTime() + core.settings().reply(),
                renew().and("SHARED")).start().thenApply(answer -> {
                    exclusive = false;
                    return answer;
                }));
    }

    private CompletableFuture<@Nullable Void> told(CompletableFuture<Answer> call) {
        return call.handle((answer, failure) -> {
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
