package io.github.redislock;

import java.time.Duration;

/** Tells the user's observer. What that throws is logged, and changes nothing of the locks. */
record Observed(LockObserver observer) implements LockObserver {
    private static void tell(Runnable call) {
        try {
            call.run();
        } catch (RuntimeException | LinkageError e) { // the second is of a library that does not fit
            Scope.LOG.log(System.Logger.Level.ERROR, "an observer has failed", e);
        }
    }

    @Override
    public void acquired(String key, Duration waited) {
        tell(() -> observer.acquired(key, waited));
    }

    @Override
    public void refused(String key, Duration waited, Throwable why) {
        tell(() -> observer.refused(key, waited, why));
    }

    @Override
    public void released(String key, Duration held) {
        tell(() -> observer.released(key, held));
    }

    @Override
    public void lost(String key, Duration held) {
        tell(() -> observer.lost(key, held));
    }

    @Override
    public void keeperEnded(String node, Throwable why) {
        tell(() -> observer.keeperEnded(node, why));
    }

    @Override
    public void keeperOpened(String node) {
        tell(() -> observer.keeperOpened(node));
    }
}
