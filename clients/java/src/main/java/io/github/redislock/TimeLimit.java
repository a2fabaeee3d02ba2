package io.github.redislock;

import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;

/** Tells that time is up; to a process that stood still, a reply's time later: the answer may have come meanwhile. */
final class TimeLimit {
    private final Scope scope;
    private final Runnable over;
    private @Nullable Future<?> timer;
    private long asked = Long.MAX_VALUE;
    private boolean isCancelled;

    TimeLimit(Scope scope, Runnable over) {
        this.scope = scope;
        this.over = over;
    }

    /** Time is up then. Of several times the first counts; {@link Long#MAX_VALUE} is none. */
    synchronized void set(long time) {
        if (time != Long.MAX_VALUE && (asked == Long.MAX_VALUE || time - asked < 0)) {
            asked = time;
            start(time);
        }
    }

    private synchronized void start(long time) {
        if (timer != null) {
            timer.cancel(false);
        }
        if (isCancelled) {
            return;
        }
        timer = scope.after(Math.max(0, time - System.nanoTime()), () -> {
            if (Line.stoodStill(time)) {
                start(System.nanoTime() + scope.settings().reply());
            } else {
                over.run();
            }
        });
    }

    synchronized void cancel() {
        isCancelled = true;
        if (timer != null) {
            timer.cancel(false);
        }
    }
}
