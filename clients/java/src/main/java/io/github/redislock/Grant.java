package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.state.Answer;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Failure;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A lock that is held, until its release or its loss. Any thread may use it.
 *
 * <p>No client can promise that it still has the lock when its write arrives. So the data store has to compare the
 * {@link #token}.
 *
 * <pre>{@code
 * try (Grant grant = locks.get("lock:orders:42").lock()) {
 *     grant.onLost(why -> stop());
 *     grant.check(); // before a critical step
 *     pay(grant.token());
 * }
 * }</pre>
 */
public final class Grant implements AutoCloseable {
    final Claim claim;
    private final Core core;
    private final Object turn = new Object(); // of the calls about the grant
    private long taken;
    private long most = Long.MAX_VALUE; // its end, by atMost
    private boolean isTimed;
    private boolean isClosed; // of the turn
    // Of the mutex.
    private final List<Consumer<LockLostException>> onLost = new ArrayList<>(1);
    private @Nullable LockLostException loss;
    private @Nullable ScheduledFuture<?> ender;

    Grant(Core core, Claim claim, Runnable wake) {
        this.core = core;
        this.claim = claim;
        claim.wake = () -> {
            wake.run();
            if (claim.phase == Claim.Phase.LOST) {
                loss(); // which reports it
            } else if (claim.doubt != null) {
                core.elsewhere(this::find);
            }
        };
    }

    static long lease(Duration time) {
        if (time.toMillis() < 1) {
            throw Errors.misuse("a lease must be at least 1 millisecond");
        }
        return time.toNanos();
    }

    /** Follows the hand-over. */
    void start(Terms terms) {
        taken = Core.now();
        isTimed = terms.isFixed() || terms.atMost() > 0;
        if (terms.onLost() != null) {
            onLost(terms.onLost());
        }
        if (terms.atMost() > 0) {
            most = taken + terms.atMost();
        }
        endLater();
    }

    /** Has its end looked at in time, if it is to end by time. A closed client has no timer. */
    private void endLater() {
        if (isTimed) {
            core.update(() -> {
                if (ender != null) {
                    ender.cancel(false);
                }
                ender = core.state.ending(claim) != Fault.NONE ? null : core.timer.schedule(
                        () -> core.elsewhere(this::end), core.state.rest(claim, most), TimeUnit.NANOSECONDS);
            });
        }
    }

    /** Ends it at its maximum time, or at the end of a fixed lease. */
    private void end() {
        boolean isEnded = send(() -> core.state.end(claim, most), this::repeat,
                answer -> core.state.finished(claim.name, claim.token, answer.reply()));
        if (!isEnded) {
            endLater();
        }
    }

    /** Asks for it where its key is now: a node of the cluster has deleted or redirected it. */
    private void find() {
        Route to = new Route(core, key());
        send(() -> claim.renewCommand(0), words -> to.call(core.end(), words), answer -> {
            core.state.found(claim, to.loop == null ? null : to.loop.node, answer);
            if (to.loop != null) {
                to.loop.need(); // its session takes the grant in
            }
        });
    }

    /** Sends a command in its owner's name, and applies the answer. Returns false if there is none to send. */
    private boolean send(Supplier<String @Nullable []> command, Function<String[], Answer> send, Consumer<Answer> apply) {
        long[] number = new long[1];
        String[] words = core.atomically(() -> {
            String[] made = command.get();
            number[0] = made == null ? 0 : core.state.beginCall(claim.name);
            return made;
        });
        if (words == null) {
            return false;
        }
        Answer answer = send.apply(words);
        core.update(() -> {
            try {
                apply.accept(answer);
            } finally {
                core.state.endCall(number[0]);
            }
        });
        return true;
    }

    private Answer repeat(String[] words) {
        return new Route(core, key()).call(core.end(), words);
    }

    /** Makes a call of the user about the grant. */
    private void call(String attempted, Supplier<String[]> command, Consumer<Answer> apply) {
        synchronized (turn) {
            try {
                send(command, this::repeat, apply);
            } catch (Failure e) {
                throw Errors.of(attempted, key(), e.fault);
            } finally {
                endLater();
            }
        }
    }

    /** The key of the lock, with the client's prefix. */
    public String key() {
        return claim.name.key();
    }

    /** The holder, to the server. */
    public String owner() {
        return claim.name.owner();
    }

    /** The fencing token: later grants of the lock have higher ones. */
    public long token() {
        return core.atomically(() -> claim.token);
    }

    /** How often its owner holds it. */
    public long holds() {
        return core.atomically(() -> claim.holds);
    }

    /**
     * Whether nobody else has the lock, by the clock alone, without a call. It is false also while the server is silent for
     * so long that the lease may be over.
     */
    public boolean isHeld() {
        return !remaining().isZero();
    }

    /** For how long {@link #isHeld} stays true without another reply of the server; zero if it is false. */
    public Duration remaining() {
        return Duration.ofNanos(core.atomically(() ->
                core.state.ending(claim) != Fault.NONE ? 0L : Math.max(0, core.state.sure(claim) - core.state.at)));
    }

    /** What has become of it: null until it is lost. */
    public @Nullable LockLostException loss() {
        return core.atomically(() -> {
            if (loss == null && claim.phase == Claim.Phase.LOST && claim.isHandedOver) {
                LockLostException lost = (LockLostException) Errors.of("hold", key(), core.state.ending(claim));
                loss = lost;
                if (ender != null) {
                    ender.cancel(false);
                }
                onLost.forEach(notify -> core.elsewhere(() -> notify.accept(lost)));
                core.elsewhere(() -> core.observe(observer -> observer.lost(key(), lost)));
            }
            return loss;
        });
    }

    /** Whether all holds were given back, or left to others. */
    boolean isGivenBack() {
        return claim.holds == 0 || claim.phase == Claim.Phase.RELEASED;
    }

    boolean isOpen() {
        return claim.phase == Claim.Phase.HELD;
    }

    /**
     * Asks the server whether the grant stands: use it before a critical step.
     *
     * @throws LockLostException if it does not
     * @throws LockUnavailableException if the server has not answered for two reply timeouts
     * @throws LockMisuseException if it was released
     */
    public void check() {
        call("check", () -> core.state.check(claim), answer -> core.state.confirmed(claim, answer));
    }

    /** Adds a hold. */
    Grant enter(List<String> mode) {
        call("acquire", () -> core.state.enter(claim, mode), answer -> {
            core.state.confirmed(claim, answer);
            claim.holds++;
        });
        return this;
    }

    void renew(String attempted, long lease, boolean leaves) {
        call(attempted, () -> core.state.renew(claim, lease, leaves), answer -> core.state.renewed(claim, answer, leaves));
    }

    /**
     * Lifts its token. Returns false if that is too far ahead of the clock of its server. After any error it is not known
     * which token it has: it has to be given up.
     */
    boolean raise(long token) {
        boolean[] isAhead = new boolean[1];
        call("raise", () -> core.state.raise(claim, token), answer -> {
            isAhead[0] = answer.reply().fault().is("AHEAD") && isOpen();
            if (!isAhead[0]) {
                core.state.confirmed(claim, answer);
                core.state.raised(claim, token);
            }
        });
        return !isAhead[0];
    }

    /** Makes sure that its owner neither holds the lock nor waits for it. The session repeats what is not answered. */
    void giveUp() {
        send(() -> core.state.giveUp(claim), words -> {
            Route to = new Route(core, key());
            long limit = Math.min(core.settings.reply(), claim.last - Core.now());
            to.follow(Fault.NONE, limit);
            return new Answer(0, to.send(limit, words), false);
        }, answer -> core.state.finished(claim.name, 0, answer.reply()));
    }

    /**
     * Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is fixed.
     *
     * @throws LockLostException if it was lost
     * @throws LockUnavailableException if the server has not answered for two reply timeouts
     * @throws LockMisuseException if the lease is below 1 s (fixed: below 1 ms), or the grant was released
     */
    public void extend(Duration lease) {
        if (!claim.isFixed && lease.toMillis() < 1000) {
            throw Errors.misuse("a lease that the session renews must be at least 1 second");
        }
        renew("extend", lease(lease), claim.isFixed);
    }

    /**
     * Lets go of the lock without releasing it: it is not held here any more, nobody renews it, and it stays for this
     * lease, for a caller of {@link RedisLock#adopt} with its key, owner and token. An example is there.
     *
     * @throws LockLostException if it was lost
     * @throws LockUnavailableException if the server has not answered for two reply timeouts
     * @throws LockMisuseException if it is held more than once, was released, or the lease is below 1 ms
     */
    public void detach(Duration lease) {
        if (holds() > 1) {
            throw Errors.misuse(key() + " is held more than once");
        }
        renew("detach", lease(lease), true);
        core.update(() -> core.state.letGo(claim));
        endLater();
    }

    /**
     * Calls this on a thread of the client when the grant is lost, not when it is released; at once if it is lost. An exception
     * of it is logged.
     */
    public void onLost(Consumer<LockLostException> notify) {
        core.update(() -> {
            LockLostException lost = loss;
            if (lost == null) {
                onLost.add(notify);
            } else {
                core.elsewhere(() -> notify.accept(lost));
            }
        });
    }

    /**
     * Gives the lock back, or one hold of it. Without an answer the call is repeated for two reply timeouts, and after that by
     * the session.
     *
     * @throws LockLostException if it was lost before
     * @throws LockUnavailableException if the server has not answered by then
     * @throws LockRefusedException if the server refuses it
     * @throws LockMisuseException if it was released already
     */
    public void release() {
        Core.<@Nullable Void, RuntimeException>observed(core::observe, taken,
                (observer, held, error) -> observer.released(key(), held, error), () -> {
                    call("release", () -> core.state.release(claim), answer -> core.state.released(claim, answer));
                    return null;
                });
    }

    /**
     * As {@link #release}, and nothing if it was released or detached.
     *
     * @throws LockLostException if it was lost before, the first time
     */
    @Override
    public void close() {
        synchronized (turn) {
            if (core.atomically(() -> claim.phase != Claim.Phase.RELEASED && (loss == null || !isClosed))) {
                isClosed = true;
                release();
            }
        }
    }

    @Override
    public String toString() {
        return key() + " (" + token() + (isHeld() ? ", held)" : ")");
    }
}
