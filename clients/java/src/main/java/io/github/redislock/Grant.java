package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.state.Call;
import io.github.redislock.state.Claim;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
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
    final Core core;
    private final Object turn = new Object(); // of the calls about the grant
    private final CompletableFuture<LockLostException> loss = new CompletableFuture<>();
    private long taken;
    private long most = Long.MAX_VALUE; // its end, by atMost
    private boolean isClosed; // of the turn
    private @Nullable ScheduledFuture<?> ender; // of the mutex

    Grant(Core core, Claim claim, Runnable wake) {
        this.core = core;
        this.claim = claim;
        claim.wake = () -> {
            wake.run();
            if (claim.phase == Claim.Phase.ENDED) {
                endLater();
                loss(); // which reports it
            } else if (claim.doubt != null) {
                core.elsewhere(this::find);
            }
        };
    }

    /** Follows the hand-over. */
    void start(RedisLock.Terms terms) {
        taken = Core.now();
        most = terms.atMost() > 0 ? taken + terms.atMost() : most;
        if (terms.onLost() != null) {
            onLost(terms.onLost());
        }
        onLost(lost -> core.settings.observer().lost(key(), lost));
        endLater();
    }

    /** Has its end looked at in time, if it is to end by time. A closed client has no timer. */
    private void endLater() {
        if (claim.isFixed || most != Long.MAX_VALUE) {
            core.update(() -> {
                if (ender != null) {
                    ender.cancel(false);
                }
                ender = claim.phase == Claim.Phase.ENDED ? null : core.timer.schedule(
                        () -> core.elsewhere(this::end), claim.rest(most), TimeUnit.NANOSECONDS);
            });
        }
    }

    /** Ends it at its maximum time, or at the end of a fixed lease. */
    private void end() {
        send(() -> claim.end(most), core.end());
        endLater(); // it may have been extended
    }

    /** Asks for it where its key is now: a node of the cluster has deleted or redirected it. */
    private void find() {
        send(claim::find, core.end());
        core.loops.values().stream().filter(loop -> loop.node == claim.node)
                .forEach(loop -> core.update(loop::need)); // its session takes the grant in
    }

    /** Makes a call in its owner's name until this time. Returns why it has failed, or {@link Fault#NONE}. */
    private Fault send(Supplier<@Nullable Call> begin, long end) {
        Call call = core.atomically(begin);
        if (call == null) {
            return claim.fault; // it has ended
        }
        Call.Answer answer = new Route(core, key(), null).call(end, call.command());
        return core.atomically(() -> call.apply().apply(answer));
    }

    /** Makes a call of the user about the grant. Returns why it has failed, or {@link Fault#NONE}. */
    private Fault call(Supplier<@Nullable Call> begin) {
        synchronized (turn) {
            return send(begin, core.end());
        }
    }

    private void require(String attempted, Fault fault) {
        if (fault != Fault.NONE) {
            throw LockException.of(attempted, key(), fault);
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
                claim.phase == Claim.Phase.ENDED ? 0 : Math.max(0, claim.sure() - core.state.at)));
    }

    /** What has become of it: null until it is lost. */
    public @Nullable LockLostException loss() {
        if (claim.isLost() && claim.isHandedOver && !loss.isDone()) {
            loss.complete((LockLostException) LockException.of("hold", key(), claim.fault)); // once
        }
        return loss.getNow(null);
    }

    /** Whether all holds were given back, or left to others. */
    boolean isGivenBack() {
        return claim.holds == 0 || claim.phase == Claim.Phase.ENDED && !claim.isLost();
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
        require("check", call(claim::check));
    }

    /** Adds a hold. */
    Grant enter(List<String> mode) {
        require("acquire", call(() -> claim.enter(mode)));
        return this;
    }

    void renew(String attempted, long lease, boolean leaves) {
        Fault fault = call(() -> claim.renew(lease, leaves));
        endLater();
        require(attempted, fault);
    }

    /**
     * Lifts its token. Returns false if that is too far ahead of the clock of its server. After any error it is not known
     * which token it has: it has to be given up.
     */
    boolean raise(long token) {
        Fault fault = call(() -> claim.raise(token));
        if (!fault.is("AHEAD")) {
            require("raise", fault);
        }
        return fault == Fault.NONE;
    }

    /** Makes sure that its owner neither holds the lock nor waits for it. The session repeats what is not answered. */
    void giveUp() {
        send(() -> core.state.giveUp(claim), Math.min(Core.now() + core.settings.reply(), claim.last));
    }

    /**
     * Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is fixed.
     *
     * @throws LockLostException if it was lost
     * @throws LockUnavailableException if the server has not answered for two reply timeouts
     * @throws LockMisuseException if the lease is below 1 s (fixed: below 1 ms), or the grant was released
     */
    public void extend(Duration lease) {
        renew("extend", Lockable.atLeast(claim.isFixed ? 1 : 1000, lease), claim.isFixed);
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
            throw LockException.misuse(key() + " is held more than once");
        }
        renew("detach", Lockable.atLeast(1, lease), true);
        core.update(claim::letGo);
    }

    /**
     * Calls this on a thread of the client when the grant is lost, not when it is released; at once if it is lost. An exception
     * of it is logged.
     */
    public void onLost(Consumer<LockLostException> notify) {
        loss.thenAccept(lost -> core.elsewhere(() -> notify.accept(lost)));
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
        Core.observed((held, error) -> core.settings.observer().released(key(), held, error), taken, () -> {
            require("release", call(claim::release));
            return this;
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
            if (core.atomically(() -> claim.phase != Claim.Phase.ENDED || claim.isLost() && !isClosed)) {
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
