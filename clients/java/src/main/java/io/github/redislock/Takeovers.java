package io.github.redislock;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Grants that have just come from a wait. The keeper takes over those that are still held a moment later, so that a
 * lock that is held for less costs no renewal. All have one alarm, which a release leaves as it is.
 */
final class Takeovers {
    private static final long MOMENT = TimeUnit.MILLISECONDS.toNanos(100);

    private final Core core;
    private final Map<Held, Long> pending = new HashMap<>();
    private Future<?> alarm = CompletableFuture.completedFuture(null);
    private long due; // of the alarm, where one is set
    private boolean isSet;

    Takeovers(Core core) {
        this.core = core;
    }

    /** Takes it over in a moment, or at that time where that is sooner. */
    synchronized void add(Held grant, long latest) {
        long soon = System.nanoTime() + MOMENT;
        long at = latest - soon < 0 ? latest : soon;
        pending.put(grant, at);
        if (!isSet || at - due < 0) {
            set(at);
        }
    }

    /** Whether it was still to be taken over. It is no more. */
    synchronized boolean remove(Held grant) {
        return pending.remove(grant) != null;
    }

    private void set(long at) {
        alarm.cancel(false);
        isSet = true;
        due = at;
        alarm = core.after(Math.max(0, at - System.nanoTime()), () -> ring(at));
    }

    private void ring(long at) {
        List<Held> over = new ArrayList<>();
        synchronized (this) {
            if (!isSet || due != at) {
                return;
            }
            isSet = false;
            long now = System.nanoTime();
            long next = now + MOMENT;
            for (Iterator<Map.Entry<Held, Long>> all = pending.entrySet().iterator(); all.hasNext();) {
                Map.Entry<Held, Long> one = all.next();
                if (one.getValue() - now <= 0) {
                    over.add(one.getKey());
                    all.remove();
                } else if (one.getValue() - next < 0) {
                    next = one.getValue();
                }
            }
            if (!pending.isEmpty()) {
                set(next);
            }
        }
        over.forEach(Held::handToKeeper);
    }
}
