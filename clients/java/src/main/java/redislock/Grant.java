package redislock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** One ownership, from the first lock to the last unlock. */
final class Grant {
    /** One scheduler for all locks; what it starts runs elsewhere, so that no slow server stops it. */
    private static final ScheduledThreadPoolExecutor SCHEDULER =
            new ScheduledThreadPoolExecutor(1, work -> daemon(work, "redis-locks-scheduler"));
    static final ExecutorService CALLS =
            Executors.newCachedThreadPool(work -> daemon(work, "redis-locks"));

    static {
        SCHEDULER.setRemoveOnCancelPolicy(true);
    }

    private final RedisLocks locks;
    private final Calls calls;
    private final Calls.Place place;
    private final long token;
    private final Thread thread = Thread.currentThread();
    private int holds = 1; // for its thread alone
    private long until = System.nanoTime();
    private String over;
    private int guarded;
    private boolean interrupted;
    private Future<?> renewal = CompletableFuture.completedFuture(null);
    private Future<?> lapse = renewal;

    Grant(RedisLocks locks, Calls calls, Calls.Place place, long token) {
        this.locks = locks;
        this.calls = calls;
        this.place = place;
        this.token = token;
    }

    /** Counts the lease from when the call that set it was sent. */
    synchronized void trust(Calls.Answer answer) {
        long length = TimeUnit.MILLISECONDS.toNanos((Long) answer.fields().get(3));
        long ends = answer.sent() + length;
        if (over != null || ends - until < 0) {
            return;
        }
        until = ends;
        renewal.cancel(false);
        lapse.cancel(false);
        long now = System.nanoTime();
        renewal = SCHEDULER.schedule(() -> CALLS.execute(this::renew), ends - length / 3 * 2 - now, TimeUnit.NANOSECONDS);
        lapse = SCHEDULER.schedule(this::lapsed, ends - now, TimeUnit.NANOSECONDS);
    }

    long token() {
        return token;
    }

    synchronized long until() {
        return until;
    }

    private void renew() {
        try {
            Calls.Answer answer = calls.call(until(), locks::isClosed, "LOCK.RENEW", place.key(), place.owner(), "TOKEN", "" + token);
            if (answer.lost() == null) {
                trust(answer);
            } else {
                finish(answer.lost());
            }
        } catch (RuntimeException e) {
            // No answer: the lease will tell.
        }
    }

    private synchronized boolean lapsed() {
        if (System.nanoTime() - until >= 0) {
            finish("no answer for a whole lease");
        }
        return over != null;
    }

    synchronized void check() {
        if (lapsed()) {
            throw new LockLostException(over);
        }
    }

    void enterAgain(Duration lease) {
        check();
        Calls.Answer answer = calls.call(until(), locks::isClosed, "LOCK.ACQUIRE", place.key(), place.owner(),
                "PX", "" + lease.toMillis(), "HOLDS", "" + (holds + 1), "TOKEN", "" + token);
        if (answer.lost() != null) {
            throw lost(answer);
        }
        holds++;
        trust(answer);
    }

    void unlock() {
        holds--;
        if (holds == 0) {
            locks.forget(place);
        }
        check();
        giveBack(holds, "unlocked");
    }

    /** Releases all holds but these. With the last one the work has to end first. */
    void giveBack(int left, String why) {
        if (left == 0) {
            finish(why);
        }
        Calls.Answer answer = calls.call(until(), () -> false, "LOCK.RELEASE", place.key(), place.owner(),
                "HOLDS", "" + left, "TOKEN", "" + token);
        boolean done = left == 0 && answer.repeated(); // the first time
        if (answer.lost() != null && !done) {
            throw lost(answer);
        }
    }

    private LockLostException lost(Calls.Answer answer) {
        finish(answer.lost());
        return new LockLostException(answer.lost());
    }

    private synchronized void finish(String why) {
        if (over != null) {
            return;
        }
        over = why;
        renewal.cancel(false);
        lapse.cancel(false);
        if (guarded > 0 && Thread.currentThread() != thread) {
            interrupted = true;
            thread.interrupt();
        }
    }

    /** Begins and ends work that a loss interrupts. */
    synchronized void guard(int more) {
        guarded += more;
        if (guarded == 0 && interrupted) {
            interrupted = false;
            Thread.interrupted();
        }
    }

    private static Thread daemon(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }
}
