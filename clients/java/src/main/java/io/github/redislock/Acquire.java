package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Failure;
import io.github.redislock.state.Name;
import io.github.redislock.state.Node;
import io.github.redislock.state.Waits.Step;
import java.util.Objects;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One acquire, by the thread that waits for it. */
final class Acquire {
    private final Core core;
    private final String key;
    private final Terms terms;
    private final boolean isInterruptible;
    private final Route to;
    private final Semaphore news = new Semaphore(0);
    private volatile boolean isStopped;
    private boolean wasInterrupted;
    private @Nullable Grant grant;

    Acquire(Core core, String key, Terms terms, boolean isInterruptible) {
        this.core = core;
        this.key = key;
        this.terms = terms;
        this.isInterruptible = isInterruptible;
        to = new Route(core, key);
    }

    /** Acquires for a task, or for a fresh owner. */
    Grant by(@Nullable Task owner, long wait) throws InterruptedException {
        Task task = terms.mode().size() > 1 ? null : owner; // each permit is an owner of its own
        Grant held = task == null ? null : task.grant(key);
        return Core.observed(core::observe, Core.now(), (observer, took, error) -> observer.acquired(key, took, error), () -> {
            if (isInterruptible && Thread.interrupted()) {
                throw new InterruptedException();
            }
            return held != null && held.isOpen() ? held.enter(terms.mode()) : acquire(task, null, 0, wait);
        });
    }

    Grant adopt(String owner, long token) {
        try {
            return acquire(null, owner, token, 0);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // only where that is allowed
        }
    }

    private Grant acquire(@Nullable Task task, @Nullable String owner, long token, long wait) throws InterruptedException {
        boolean isHeld = false;
        try {
            Fault fault = to.follow(Fault.NONE, core.settings.reply());
            if (to.loop == null) {
                throw new Failure(fault.at("cluster"));
            }
            Grant held = ask(core.atomically(() -> {
                grant = register(task, owner, token, wait);
                return next(grant.claim);
            }));
            if (terms.isFixed()) {
                held.renew("acquire", terms.lease(), true);
            }
            isHeld = true;
            held.start(terms);
            if (task != null) {
                task.remember(held);
            }
            return held;
        } catch (Failure e) {
            throw Errors.of("acquire", key, e.fault);
        } finally {
            if (!isHeld && grant != null) {
                grant.giveUp();
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private Grant register(@Nullable Task task, @Nullable String owner, long token, long wait) {
        String named = owner != null || task == null ? owner : core.state.usableOwner(task.state);
        Name name = new Name(key, named == null ? core.owner() : named);
        Claim claim = new Claim(name, terms.mode(), terms.lease(), wait, core.settings.reply(), core.state.at, to.loop.node);
        claim.isFixed = terms.isFixed();
        claim.adopted = token;
        core.state.ask(claim);
        if (task != null) {
            claim.task = task.state;
            task.state.owner = name.owner();
        }
        return new Grant(core, claim, news::release);
    }

    /** Asks until there is a grant. The loop brings the events of a place in line. */
    private Grant ask(@Nullable Step first) throws InterruptedException {
        Pauses pauses = new Pauses();
        Grant asked = Objects.requireNonNull(grant);
        Claim claim = asked.claim;
        Step step = first;
        while (step != null) {
            long pause = step.rest();
            if (step.words() != null) {
                Step sent = step;
                Node node = claim.node;
                long limit = Math.min(claim.limit, claim.last - sent.call());
                Reply reply = to.send(limit, sent.words());
                boolean passes = reply.fault().isPassing();
                step = core.atomically(() -> {
                    core.state.answered(claim, node, sent.session(), sent.call(), reply);
                    core.state.endCall(sent.call());
                    return passes ? sent : next(claim);
                });
                if (!passes) {
                    continue;
                }
                to.follow(reply.fault(), limit);
                pause = Math.min(pauses.next(), claim.askedEnd - Core.now());
            }
            sleep(pause);
            step = core.atomically(() -> next(claim));
        }
        return asked;
    }

    private @Nullable Step next(Claim claim) {
        Loop loop = to.loop;
        if (loop != null && claim.phase == Claim.Phase.ASKED) {
            claim.node = loop.node; // the key is there now
        }
        Step step = core.state.next(claim);
        boolean wantsSession = step != null && step.words() == null && claim.phase == Claim.Phase.ASKED;
        if (loop != null && (wantsSession || !loop.isRunning())) {
            loop.need();
        }
        return step;
    }

    /** Pauses; news of the wait end it, and so does an interrupt, which is kept. */
    private void sleep(long pause) throws InterruptedException {
        try {
            news.tryAcquire(pause, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            wasInterrupted = true;
        }
        if (isInterruptible && (isStopped || wasInterrupted)) {
            wasInterrupted = false;
            throw new InterruptedException();
        }
        news.drainPermits();
    }

    /** Ends the wait, as an interrupt does. */
    void stop() {
        isStopped = true;
        news.release();
    }
}
