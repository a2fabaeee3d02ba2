package redislock;

import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** Commands that are sent until they are answered. */
final class Calls {
    private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
    private static final Set<String> LOST = Set.of("NOTHELD", "NOTOWNER", "FENCED");
    /** Refusals that pass: the call is sent again. */
    private static final Set<String> PASSING = Set.of("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN",
            "READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF");

    private final LockServer server;

    /** Where a grant is kept: the owner is a thread of this process. */
    record Place(String key, String owner) {}

    record Answer(List<?> fields, long sent, String lost, boolean repeated) {}

    Calls(LockServer server) {
        this.server = server;
    }

    /** Leaves neither a hold nor a wait of this owner. */
    void cancel(Place place) {
        try {
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(1);
            call(until, () -> false, "LOCK.RELEASE", place.key, place.owner, "ALL");
        } catch (RuntimeException e) {
            // What may be left is gone when its connection or its lease ends.
        }
    }

    /** Sends a command until the server has answered it, and tells when the answered one was sent. */
    Answer call(long until, BooleanSupplier end, String... command) {
        for (boolean repeated = false;; repeated = true) {
            long sent = System.nanoTime();
            try {
                return new Answer(server.call(command), sent, null, repeated);
            } catch (RuntimeException e) {
                if (e instanceof LockServer.Refusal refusal && LOST.contains(refusal.word())) {
                    return new Answer(null, sent, e.getMessage(), repeated);
                }
                if (!passes(e) || end.getAsBoolean() || System.nanoTime() + PAUSE - until > 0) {
                    throw e;
                }
            }
            boolean interrupted = Thread.interrupted();
            try {
                TimeUnit.NANOSECONDS.sleep(PAUSE);
            } catch (InterruptedException e) {
                interrupted = true;
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Whether nobody knows what the server has done, or it may do later what it refuses now. */
    static boolean passes(RuntimeException e) {
        return !(e instanceof LockServer.Refusal refusal) || PASSING.contains(refusal.word());
    }
}
