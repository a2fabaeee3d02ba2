package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.state.Call;
import io.github.redislock.state.Claim;
import io.github.redislock.state.State;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One acquire, by the thread that waits for it. */
final class Acquire {
    private final RedisLock lock;
    private final Core core;
    private final boolean isInterruptible;
    private final Route to;
    private final Semaphore news = new Semaphore(0);
    private volatile boolean isStopped;
    private boolean wasInterrupted;

    Acquire(RedisLock lock, boolean isInterruptible) {
        this.lock = lock;
        this.isInterruptible = isInterruptible;
        core = lock.core;
        to = new Route(core, lock.fullKey(), null);
    }

    /** Acquires for the task of the lock, or for a fresh owner. */
    Grant within(long wait) throws InterruptedException {
        String key = lock.fullKey();
        Task task = lock.terms.mode().size() > 1 ? null : lock.task; // each permit is an owner of its own
        Grant held = task == null ? null : task.grant(key);
        return Core.observed((took, error) -> core.settings.observer().acquired(key, took, error), Core.now(), () -> {
            if (isInterruptible && Thread.interrupted()) {
                throw new InterruptedException();
            }
            return held != null && held.isOpen() ? held.enter(lock.terms.mode()) : acquire(task, null, 0, wait);
        });
    }

    /** Acquires for a task, for the owner of a grant to adopt, or for a fresh owner. */
    Grant acquire(@Nullable Task task, @Nullable String owner, long token, long wait) throws InterruptedException {
        String key = lock.fullKey();
        RedisLock.Terms terms = lock.terms;
        Fault lost = to.follow(Fault.NONE, core.settings.reply());
        if (to.loop == null) {
            throw LockException.of("acquire", key, lost.at("cluster"));
        }
        Grant grant = core.atomically(() -> {
            String mine = owner != null ? owner : task != null ? task.owner() : core.owner();
            Claim claim = new Claim(new Claim.Name(key, mine), terms.mode(), terms.lease(), wait, to.loop.node);
            claim.isFixed = terms.isFixed();
            claim.adopted = token;
            claim.renounceOwner = task == null ? claim.renounceOwner : task::renounceOwner;
            core.state.ask(claim);
            return new Grant(core, claim, news::release);
        });
        boolean isHeld = false;
        try {
            Fault failure = ask(grant.claim);
            if (failure != Fault.NONE) {
                throw LockException.of("acquire", key, failure);
            }
            if (terms.isFixed()) {
                grant.renew("acquire", terms.lease(), true);
            }
            isHeld = true;
            grant.start(terms);
            if (task != null) {
                task.remember(grant);
            }
            return grant;
        } finally {
            if (!isHeld) {
                grant.giveUp();
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Asks until there is a grant or an error. The loop brings the events of a place in line. */
    private Fault ask(Claim claim) throws InterruptedException {
        Pauses pauses = new Pauses();
        for (;;) {
            State.Step step = core.atomically(() -> next(claim));
            if (step.end() != null) {
                return step.end();
            }
            Call call = step.call();
            long rest = step.rest();
            if (call != null) {
                long limit = Math.min(claim.limit, claim.last - Core.now());
                Call.Answer answer = to.send(limit, call.command(), false);
                Fault fault = core.atomically(() -> call.apply().apply(answer));
                if (!fault.isPassing()) {
                    continue;
                }
                to.follow(fault, limit);
                rest = Math.min(pauses.next(), claim.askedEnd - Core.now());
            }
            sleep(rest);
        }
    }

    private State.Step next(Claim claim) {
        boolean isAsked = claim.phase == Claim.Phase.ASKED;
        claim.node = isAsked ? to.loop.node : claim.node; // the key is there now
        State.Step step = core.state.next(claim);
        if (step.end() == null && (isAsked && step.call() == null || !to.loop.isRunning())) {
            to.loop.need(); // it opens a session, or brings the events
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
