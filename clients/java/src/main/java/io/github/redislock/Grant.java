package io.github.redislock;

import io.github.redislock.spi.Reply;
import io.github.redislock.state.Answer;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Failure;
import io.github.redislock.state.Grants.Command;
import io.github.redislock.state.State;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A lock that is held, until its release or its loss. Any thread may use it.
 *
 * <p>No client can promise that it still has the lock when its write arrives. So what is written to has to compare the
 * {@link #token}.
 */
public final class Grant implements AutoCloseable {
    final Claim claim;
    private final Core core;
    private final Core.Target to; // where its ACQUIRE goes
    private final Object turn = new Object(); // of the calls about the grant
    private long taken;
    private long most = Long.MAX_VALUE; // its end, by atMost
    private boolean isTimed;
    private boolean isClosed; // of the turn
    // Of the mutex.
    private final List<Consumer<LockLostException>> onLost = new ArrayList<>();
    private @Nullable LockLostException loss;
    private @Nullable ScheduledFuture<?> ender;

    Grant(Core core, Core.Target to, Claim claim, Runnable wake) {
        this.core = core;
        this.to = to;
        this.claim = claim;
        claim.wake = () -> {
            wake.run();
            reportLoss();
        };
        claim.find = this::find;
    }

    static long lease(Duration time) {
        if (time.toMillis() < 1) {
            throw Errors.misuse("a lease is at least 1 millisecond");
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
            core.update(state -> {
                if (ender != null) {
                    ender.cancel(false);
                }
                ender = state.ending(claim) != null ? null
                        : core.timer.schedule(() -> core.elsewhere(this::end), state.rest(claim, most), TimeUnit.NANOSECONDS);
            });
        }
    }

    /** Ends it at its maximum time, or at the end of a fixed lease. */
    private void end() {
        String[] command = core.atomically(state -> state.end(claim, most));
        if (command != null) {
            Answer answer = core.call(new Core.Target(claim.name.key()), loop -> command);
            core.update(state -> state.ended(claim, answer.reply()));
        } else {
            endLater();
        }
    }

    /** Asks for it where its key is now: a node of the cluster has deleted or redirected it. */
    private void find() {
        core.registered(claim.name, () -> {
            Loop[] at = new Loop[1];
            long[] session = new long[1];
            Answer answer = core.call(new Core.Target(claim.name.key()), loop -> core.atomically(state -> {
                at[0] = loop;
                session[0] = loop.node.session;
                if (session[0] == 0) {
                    loop.need();
                }
                return session[0] == 0 ? null : claim.renewCommand(session[0]);
            }));
            core.update(state -> state.found(claim, at[0] == null ? null : at[0].node, session[0], answer));
            return answer;
        });
    }

    /** Reports a loss once. The mutex is held. */
    private void reportLoss() {
        if (claim.phase == Claim.Phase.LOST && claim.isHandedOver && loss == null) {
            LockLostException lost = (LockLostException) Errors.of("hold", key(), core.state.ending(claim));
            loss = lost;
            if (ender != null) {
                ender.cancel(false);
            }
            onLost.forEach(notify -> core.elsewhere(() -> notify.accept(lost)));
            core.elsewhere(() -> core.observe(observer -> observer.lost(key(), lost)));
        }
    }

    /** Makes a call about the grant. before returns its command, after applies the answer. */
    private void call(String attempted, Function<State, Command> before,
            BiFunction<State, Answer, @Nullable Failure> after) {
        Failure failure;
        synchronized (turn) {
            failure = core.registered(claim.name, () -> {
                Command command = core.atomically(before);
                if (command.words() == null) {
                    return command.failure();
                }
                Answer answer = core.call(new Core.Target(claim.name.key()), loop -> command.words());
                return core.atomically(state -> after.apply(state, answer));
            });
        }
        endLater();
        if (failure != null) {
            throw Errors.of(attempted, key(), failure);
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
        return core.atomically(state -> claim.token);
    }

    /** How often its owner holds it. */
    public long holds() {
        return core.atomically(state -> claim.holds);
    }

    /** Whether nobody else has the lock, by the clock alone. It is false also while the server is silent. */
    public boolean isHeld() {
        return !remaining().isZero();
    }

    /** For how long {@link #isHeld} stays true without another reply of the server. */
    public Duration remaining() {
        return Duration.ofNanos(core.atomically(state ->
                state.ending(claim) != null ? 0L : Math.max(0, state.sure(claim) - state.at)));
    }

    /** What has become of it: null until it is lost. */
    public @Nullable LockLostException loss() {
        return core.atomically(state -> loss);
    }

    boolean isOpen() {
        return claim.phase == Claim.Phase.HELD;
    }

    /** Asks the server whether the grant stands, and throws {@link LockLostException} if it does not. */
    public void check() {
        call("check", state -> state.check(claim), (state, answer) -> state.confirmed(claim, answer));
    }

    /** Adds a hold. */
    Grant enter(List<String> mode) {
        call("acquire", state -> state.enter(claim, mode), (state, answer) -> {
            Failure failure = state.confirmed(claim, answer);
            if (failure == null) {
                claim.holds++;
            }
            return failure;
        });
        return this;
    }

    void renew(String attempted, long lease, boolean leaves) {
        call(attempted, state -> state.renew(claim, lease, leaves), (state, answer) -> state.confirmed(claim, answer));
    }

    /**
     * Lifts its token. Returns false if that is too far ahead of the clock of its server. After any error it is not known
     * which token it has: it has to be given up.
     */
    boolean raise(long token) {
        boolean[] isAhead = new boolean[1];
        call("raise", state -> state.raise(claim, token), (state, answer) -> {
            Failure failure = state.confirmed(claim, answer);
            isAhead[0] = answer.reply().is("AHEAD");
            if (failure == null) {
                state.raised(claim, token);
            }
            return isAhead[0] && claim.phase == Claim.Phase.HELD ? null : failure;
        });
        return !isAhead[0];
    }

    /** Makes sure that its owner neither holds the lock nor waits for it. The session repeats what is not answered. */
    void giveUp() {
        core.registered(claim.name, () -> {
            long[] now = new long[1];
            boolean isKnown = core.atomically(state -> {
                now[0] = state.at;
                return state.giveUp(claim);
            });
            Loop loop = to.loop;
            if (isKnown && loop != null) {
                long limit = Math.min(core.settings.reply(), claim.last - now[0]);
                Reply reply = loop.call(to.isAsking, limit, claim.cancelCommand());
                core.update(state -> state.cancelAnswered(claim, reply));
            }
            return isKnown;
        });
    }

    /** Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is fixed. */
    public void extend(Duration lease) {
        if (!claim.isFixed && lease.toMillis() < 1000) {
            throw Errors.misuse("a lease that the session renews is at least 1 second");
        }
        renew("extend", lease(lease), claim.isFixed);
    }

    /**
     * Lets go of the lock without releasing it: it is not held here any more, nobody renews it, and it stays for this
     * lease, for a caller of {@link RedisLock#adopt} with its key, owner and token.
     */
    public void detach(Duration lease) {
        if (holds() > 1) {
            throw Errors.misuse(key() + " is held more than once");
        }
        renew("detach", lease(lease), true);
        core.update(state -> state.letGo(claim));
        endLater();
    }

    /** Calls this on a thread of the client when the grant is lost, not when it is released; at once if it is lost. */
    public void onLost(Consumer<LockLostException> notify) {
        core.atomically(state -> {
            LockLostException lost = loss;
            if (lost != null) {
                core.elsewhere(() -> notify.accept(lost));
            }
            return onLost.add(notify);
        });
    }

    /**
     * Gives the lock back, or one hold of it. Throws {@link LockLostException} if it was lost before. Without an answer the
     * call is repeated for two reply timeouts; after that the session repeats it, and {@link LockUnavailableException} is
     * thrown.
     */
    public void release() {
        Throwable[] error = new Throwable[1];
        try {
            call("release", state -> state.release(claim), (state, answer) -> state.released(claim, answer));
        } catch (RuntimeException e) {
            error[0] = e;
            throw e;
        } finally {
            core.observe(observer -> observer.released(key(), Duration.ofNanos(Core.now() - taken), error[0]));
        }
    }

    /** As {@link #release}, and nothing if it was released or detached. */
    @Override
    public void close() {
        synchronized (turn) {
            if (core.atomically(state -> claim.phase != Claim.Phase.RELEASED && (loss == null || !isClosed))) {
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
