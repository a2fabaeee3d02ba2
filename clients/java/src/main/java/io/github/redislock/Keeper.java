package io.github.redislock;

import io.github.redislock.Line.SilentException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The one connection to a node on which this client's grants are kept: its end, its replacement, its PINGs. */
final class Keeper {
    private static final long LIVED = TimeUnit.SECONDS.toNanos(1);
    private static final long OFTEN = TimeUnit.MILLISECONDS.toNanos(100);

    private final Core core;
    private final String node;
    private final Set<Held> held = new HashSet<>();
    private final Set<Wait> waits = new HashSet<>();
    private final Rivals rivals = new Rivals();
    private final Renewals renewals;
    private volatile @Nullable Line line;
    /** Who waits for the line that is being opened: told in this order. */
    private @Nullable List<CompletableFuture<Line>> opening;
    private long pause;
    private long pingDue;
    private long judgeDue;
    private boolean closed;

    Keeper(Core core, String node) {
        this.core = core;
        this.node = node;
        renewals = new Renewals(core, this, rivals);
    }

    String node() {
        return node;
    }

    @Nullable Line openLine() {
        Line now = line;
        return now != null && now.isOpen() ? now : null;
    }

    /** The line, which is opened where there is none: by one attempt for all, and after a pause where one has failed. */
    CompletableFuture<Line> line() {
        CompletableFuture<Line> mine = new CompletableFuture<>();
        List<CompletableFuture<Line>> callers;
        long delay;
        synchronized (this) {
            Line now = line;
            if (now != null && now.isOpen()) {
                return CompletableFuture.completedFuture(now);
            }
            if (closed) {
                return CompletableFuture.failedFuture(new IOException("the locks are closed"));
            }
            if (opening != null) {
                opening.add(mine);
                return mine;
            }
            callers = new ArrayList<>(List.of(mine));
            opening = callers;
            delay = Core.jittered(pause);
        }
        if (delay == 0) {
            core.execute(() -> open(callers));
        } else {
            core.after(delay, () -> open(callers));
        }
        return mine;
    }

    private void open(List<CompletableFuture<Line>> callers) {
        long begun = System.nanoTime();
        Line fresh;
        try {
            fresh = core.connect(node, "lock-keeper");
            rivals.greet(fresh);
            fresh.watch(true);
        } catch (Throwable e) { // an Error too has to be told
            boolean silent = System.nanoTime() - begun >= core.settings().reply() / 10 * 9;
            failed(callers, e, silent);
            return;
        }
        List<Held> all;
        synchronized (this) {
            opening = null;
            if (!closed) {
                line = fresh;
            }
            all = new ArrayList<>(held);
        }
        if (line != fresh) {
            IOException why = new IOException("the locks are closed");
            fresh.close(why);
            callers.forEach(caller -> caller.completeExceptionally(why));
            return;
        }
        all.forEach(grant -> renewals.restore(grant, fresh)); // before anything else
        callers.forEach(caller -> caller.complete(fresh));
        fresh.end().thenAccept(why -> ended(fresh, why));
        core.observer().keeperOpened(node);
        Core.LOG.log(System.Logger.Level.DEBUG, "keeper {0} is open, {1} grants to keep", node, all.size());
        pingAgain();
    }

    private void failed(List<CompletableFuture<Line>> callers, Throwable why, boolean silent) {
        boolean again;
        List<Held> all;
        synchronized (this) {
            opening = null;
            pause = Core.nextPause(pause);
            all = new ArrayList<>(held);
            again = isNeeded();
        }
        callers.forEach(caller -> caller.completeExceptionally(why));
        if (silent) {
            breakWaits(why);
        }
        core.refresh().whenComplete((nothing, failure) -> all.forEach(this::rehome));
        if (again) {
            Core.LOG.log(System.Logger.Level.WARNING, "keeper " + node + " cannot be opened: " + why.getMessage());
            line();
        }
    }

    private void ended(Line old, Throwable why) {
        boolean isNeeded;
        synchronized (this) {
            if (line != old) {
                return; // replaced by this client itself
            }
            line = null;
            // The end of a line that has served is an event, and a new one is wanted at once.
            pause = old.age() > LIVED ? 0 : Core.nextPause(old.hasServed() ? 0 : pause);
            isNeeded = isNeeded();
        }
        core.observer().keeperEnded(node, why);
        if (why instanceof SilentException) {
            breakWaits(why);
        }
        if (isNeeded) {
            Core.LOG.log(System.Logger.Level.INFO, "keeper " + node + " has ended: " + why.getMessage());
            line();
            judgeLater();
        }
    }

    private boolean isNeeded() {
        return !closed && (!held.isEmpty() || !waits.isEmpty());
    }

    /** What the network swallows for the keeper it swallows for those who wait too. */
    private void breakWaits(Throwable why) {
        List<Wait> all;
        synchronized (this) {
            all = new ArrayList<>(waits);
        }
        all.forEach(wait -> wait.breakLine(why));
    }

    /** Moves the grants to a new line: what was left out of them is kept no more. */
    void replace(Line old) {
        boolean isNeeded;
        synchronized (this) {
            if (line != old) {
                return;
            }
            line = null;
            isNeeded = isNeeded();
        }
        old.close(new IOException("replaced"));
        if (isNeeded) {
            line();
            judgeLater();
        }
    }

    /** Keeps a grant that was replied on this line. */
    void add(Held grant, Line on) {
        Line now;
        synchronized (this) {
            if (!grant.isKept()) {
                return;
            }
            held.add(grant);
            now = line;
        }
        if (now != on) {
            adopt(grant);
        } else {
            pingSoon(grant.pace());
        }
    }

    /** Its lease may be shorter than it was. */
    void paceChanged(Held grant) {
        if (keeps(grant, grant.line())) {
            pingSoon(grant.pace());
        }
        judgeLater(List.of(grant));
    }

    /** Keeps a grant that was kept before, or not yet. */
    void adopt(Held grant) {
        Line now;
        synchronized (this) {
            if (!grant.isKept()) {
                return; // it has ended meanwhile
            }
            held.add(grant);
            now = openLine();
        }
        if (now == null) {
            line();
        } else {
            renewals.restore(grant, now);
        }
        judgeLater(List.of(grant));
    }

    /** What tells who else keeps a grant. */
    Rivals rivals() {
        return rivals;
    }

    synchronized void remove(Held grant) {
        held.remove(grant);
    }

    void addWait(Wait wait) {
        synchronized (this) {
            waits.add(wait);
        }
        if (line == null) {
            line(); // it has ended a moment before
        }
        pingSoon(wait.pace());
    }

    synchronized void removeWait(Wait wait) {
        waits.remove(wait);
    }

    /** Whether it is to be kept here, on this line. */
    synchronized boolean keeps(Held grant, Line on) {
        return held.contains(grant) && line == on;
    }

    /** In a cluster a key may be served by another node now. */
    void rehome(Held grant) {
        Keeper home = core.keeperNow(grant.key());
        if (home == null || home == this) {
            return;
        }
        synchronized (this) {
            if (!held.remove(grant)) {
                return;
            }
        }
        grant.keptBy(home);
        if (grant.isHeld()) {
            home.adopt(grant);
        }
    }

    /** Not later than this pace says. */
    synchronized void pingSoon(long pace) {
        if (line == null || held.isEmpty() && waits.isEmpty()) {
            return;
        }
        long due = System.nanoTime() + Math.max(OFTEN, pace);
        if (pingDue != 0 && pingDue - due <= 0) {
            return;
        }
        pingDue = due;
        core.after(due - System.nanoTime(), () -> tick(due));
    }

    private synchronized void pingAgain() {
        if (!held.isEmpty() || !waits.isEmpty()) {
            pingSoon(interval());
        }
    }

    private long interval() {
        long shortest = Long.MAX_VALUE;
        for (Held grant : held) {
            shortest = Math.min(shortest, grant.pace());
        }
        for (Wait wait : waits) {
            shortest = Math.min(shortest, wait.pace());
        }
        return shortest;
    }

    private void tick(long due) {
        Line now;
        synchronized (this) {
            if (pingDue != due) {
                return;
            }
            pingDue = 0;
            now = line;
        }
        if (now != null) {
            now.ping();
            pingAgain();
            judgeLater();
        }
    }

    /** Looks again at the time when the first grant of which no sign has come for long would be lost. */
    void judgeLater() {
        judgeLater(held);
    }

    private void judgeLater(Collection<Held> some) {
        judgeLater(some, System.nanoTime());
    }

    private void judgeLater(Collection<Held> some, long now) {
        long due;
        synchronized (this) {
            long first = Long.MAX_VALUE;
            for (Held grant : some) {
                long left = grant.knownUntil() - now;
                if (line == null || left < grant.leaseNanos() / 2) {
                    first = Math.min(first, left);
                }
            }
            if (first == Long.MAX_VALUE) {
                return;
            }
            // A time that had passed by then was slept through: what has come is read first.
            due = now + (first <= 0 ? core.settings().reply() : first);
            if (judgeDue != 0 && judgeDue - due <= 0) {
                return;
            }
            judgeDue = due;
        }
        core.after(Math.max(0, due - System.nanoTime()), () -> judge(due));
    }

    private void judge(long due) {
        List<Held> lapsed = new ArrayList<>();
        Line on;
        long now = System.nanoTime();
        boolean stoodStill = Line.stoodStill(due);
        synchronized (this) {
            if (judgeDue != due) {
                return;
            }
            judgeDue = 0;
            on = line;
            if (!stoodStill) {
                for (Held grant : held) {
                    if (grant.knownUntil() - now <= 0) {
                        lapsed.add(grant);
                    }
                }
            }
        }
        if (stoodStill && on != null) {
            on.ping();
        }
        lapsed.forEach(Held::unheard);
        judgeLater(held, now); // what has passed while the others were told was not slept through
    }

    void close(Throwable why) {
        Line now;
        List<CompletableFuture<Line>> callers;
        synchronized (this) {
            closed = true;
            now = line;
            line = null;
            callers = opening == null ? List.of() : opening;
            opening = null;
        }
        if (now != null) {
            now.close(why);
        }
        callers.forEach(caller -> caller.completeExceptionally(why));
    }
}
