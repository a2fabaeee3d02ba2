package io.github.redislock.spring.boot;

import io.github.redislock.LockLostException;
import io.github.redislock.LockObserver;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Notifies all of them, but not of the lock of the probe, which nobody works under. */
record Observers(List<LockObserver> all, String probe) implements LockObserver {
    @Override
    public void acquired(String key, Duration took, @Nullable Throwable error) {
        if (!key.equals(probe)) {
            all.forEach(one -> one.acquired(key, took, error));
        }
    }

    @Override
    public void released(String key, Duration held, @Nullable Throwable error) {
        if (!key.equals(probe)) {
            all.forEach(one -> one.released(key, held, error));
        }
    }

    @Override
    public void lost(String key, LockLostException error) {
        all.forEach(one -> one.lost(key, error));
    }

    @Override
    public void connection(String server, @Nullable Throwable error) {
        all.forEach(one -> one.connection(server, error));
    }
}
