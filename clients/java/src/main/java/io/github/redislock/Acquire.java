package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Failure;
import io.github.redislock.state.Name;
import io.github.redislock.state.Waits;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/** One acquire, by the thread that waits for it. */
final class Acquire {
    private final Core core;
    private final String key;
    private final Terms terms;
    private final boolean isInterruptible;
    private final Core.Target to;
    private volatile @Nullable Thread caller;
    private @Nullable Task task;
    private volatile boolean hasNews;
    private volatile boolean isStopped;
    private boolean wasInterrupted;

    Acquire(Core core, String key, Terms terms, boolean isInterruptible) {
        this.core = core;
        this.key = key;
        this.terms = terms;
        this.isInterruptible = isInterruptible;
        to = new Core.Target(key);
    }

    /** Acquires for a task, or for a fresh owner. */
    Grant by(@Nullable Task owner, long wait) throws InterruptedException {
        task = terms.mode().size() > 1 ? null : owner; // each permit is an owner of its own
        long begun = Core.now();
        Grant held = task == null ? null : task.grant(key);
        Throwable[] error = new Throwable[1];
        try {
            if (isInterruptible && Thread.interrupted()) {
                throw new InterruptedException();
            }
            return held != null ? held.enter(terms.mode()) : acquire(null, 0, wait);
        } catch (InterruptedException | RuntimeException e) {
            error[0] = e;
            throw e;
        } finally {
            core.observe(observer -> observer.acquired(key, Duration.ofNanos(Core.now() - begun), error[0]));
        }
    }

    Grant adopt(String owner, long token) {
        try {
            return acquire(owner, token, 0);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // only where that is allowed
        }
    }

    private Grant acquire(@Nullable String owner, long token, long wait) throws InterruptedException {
        caller = Thread.currentThread();
        Fault fault = core.route(to, null, core.settings.reply());
        if (to.loop == null) {
            throw failed(Failure.of(fault, "cluster"));
        }
        Grant grant = core.atomically(state -> {
            String named = owner != null || task == null ? owner : state.usableOwner(task.state);
            Name name = new Name(key, named == null ? core.owner() : named);
            Claim claim = new Claim(name, terms.mode(), terms.lease(), wait, core.settings.reply(), state.at, to.loop.node);
            claim.isFixed = terms.isFixed();
            claim.adopted = token;
            Failure failure = state.ask(claim);
            if (failure != null) {
                throw failed(failure);
            }
            if (task != null) {
                claim.task = task.state;
                task.state.owner = name.owner();
            }
            return new Grant(core, to, claim, this::wake);
        });
        boolean isHeld = false;
        try {
            Failure failure = ask(grant.claim);
            if (failure != null) {
                throw failed(failure);
            }
            if (terms.isFixed()) {
                grant.renew("acquire", terms.lease(), true);
            }
            isHeld = true;
        } finally {
            if (!isHeld) {
                grant.giveUp();
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
        grant.start(terms);
        if (task != null) {
            task.remember(grant);
        }
        return grant;
    }

    private LockException failed(Failure failure) {
        return Errors.of("acquire", key, failure);
    }

    /** Asks until there is a grant or a failure. The loop brings the events of a place in line. */
    private @Nullable Failure ask(Claim claim) throws InterruptedException {
        Pauses pauses = new Pauses();
        for (;;) {
            long[] now = new long[3];
            Waits.Step step = core.atomically(state -> {
                if (to.loop != null && claim.phase == Claim.Phase.ASKED) {
                    claim.node = to.loop.node; // the key is there now
                }
                Waits.Step next = state.next(claim);
                if (!next.isDone() && next.failure() == null && to.loop != null
                        && (!to.loop.isRunning() || !next.sends() && claim.phase == Claim.Phase.ASKED)) {
                    to.loop.need();
                }
                now[0] = state.at;
                now[1] = claim.node.session;
                now[2] = next.sends() ? state.beginCall(claim.name) : 0;
                return next;
            });
            if (step.isDone() || step.failure() != null) {
                return step.failure();
            }
            Loop loop = to.loop;
            if (!step.sends() || loop == null) {
                sleep(step.rest());
                continue;
            }
            long limit = Math.min(claim.limit, claim.last - now[0]);
            Reply reply = loop.call(to.isAsking, limit, claim.acquireCommand(now[1], now[0]));
            core.update(state -> {
                state.answered(claim, loop.node, now[1], now[0], reply);
                state.endCall((int) now[2]);
            });
            if (reply.isPassing()) {
                core.route(to, reply.fault(), limit);
                sleep(Math.min(pauses.next(), claim.askedEnd - Core.now()));
            }
        }
    }

    /** Pauses; news of the wait end it. */
    private void sleep(long pause) throws InterruptedException {
        long end = Core.now() + pause;
        for (long left = pause; left > 0 && (!hasNews || isStopped); left = end - Core.now()) {
            boolean isInterrupted = isStopped || Thread.interrupted();
            if (isInterrupted && isInterruptible) {
                throw new InterruptedException();
            }
            wasInterrupted |= isInterrupted;
            LockSupport.parkNanos(this, left);
        }
        hasNews = false;
    }

    /** Ends the wait, as an interrupt does. */
    void stop() {
        isStopped = true;
        wake();
    }

    private void wake() {
        hasNews = true;
        LockSupport.unpark(caller);
    }
}
