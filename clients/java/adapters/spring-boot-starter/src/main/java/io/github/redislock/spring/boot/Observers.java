package io.github.redislock.spring.boot;

import io.github.redislock.LockObserver;
import java.time.Duration;
import java.util.List;

/** Tells all of them. */
record Observers(List<LockObserver> all) implements LockObserver {
    @Override
    public void acquired(String key, Duration waited) {
        all.forEach(one -> one.acquired(key, waited));
    }

    @Override
    public void refused(String key, Duration waited, Throwable why) {
        all.forEach(one -> one.refused(key, waited, why));
    }

    @Override
    public void released(String key, Duration held) {
        all.forEach(one -> one.released(key, held));
    }

    @Override
    public void lost(String key, Duration held) {
        all.forEach(one -> one.lost(key, held));
    }

    @Override
    public void keeperEnded(String node, Throwable why) {
        all.forEach(one -> one.keeperEnded(node, why));
    }

    @Override
    public void keeperOpened(String node) {
        all.forEach(one -> one.keeperOpened(node));
    }
}
