package io.github.redislock.spring.integration;

import io.github.redislock.LockException;
import io.github.redislock.Locks;
import io.github.redislock.RedisLock;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * Locks of several processes by name, by the module redis-lock. The keys are those of Spring Integration's own registry
 * on Redis, {@code registryKey:lockKey}: while one of the two holds a lock, the other gets none.
 *
 * <p>The owner is a thread, which may lock again. Registries with the same registry key on the same {@link Locks} have the
 * same locks.
 */
public final class RedisLockRegistry implements ExpirableLockRegistry, RenewableLockRegistry {
    private static final int CAPACITY = 100_000;

    private final Locks locks;
    private final String registryKey;
    private final @Nullable Duration expireAfter;
    private final Map<String, RegistryLock> known = new LinkedHashMap<>(16, 0.75f, true);
    private int capacity = CAPACITY;

    /** With locks that are held until they are unlocked, for as long as this process lives. */
    public RedisLockRegistry(Locks locks, String registryKey) {
        this(locks, registryKey, null);
    }

    /** With locks that end after so many milliseconds, unless {@link #renewLock} is called before. */
    public RedisLockRegistry(Locks locks, String registryKey, long expireAfter) {
        this(locks, registryKey, Duration.ofMillis(expireAfter));
    }

    private RedisLockRegistry(Locks locks, String registryKey, @Nullable Duration expireAfter) {
        if (locks == null || registryKey == null) {
            throw new IllegalArgumentException("'locks' and 'registryKey' cannot be null");
        }
        this.locks = locks;
        this.registryKey = registryKey;
        this.expireAfter = expireAfter;
    }

    /** How many locks are remembered: by default 100,000. Locks in use are never forgotten. */
    public void setCacheCapacity(int cacheCapacity) {
        synchronized (known) {
            capacity = cacheCapacity;
        }
    }

    /** The lock of this name, which is a string. */
    @Override
    public Lock obtain(Object lockKey) {
        return lock(lockKey);
    }

    private RegistryLock lock(Object lockKey) {
        if (!(lockKey instanceof String path)) {
            throw new IllegalArgumentException("the key of a lock has to be a string: " + lockKey);
        }
        synchronized (known) {
            RegistryLock lock = known.get(path);
            if (lock == null) {
                makeRoom();
                lock = new RegistryLock(named(path));
                known.put(path, lock);
            }
            return lock;
        }
    }

    private void makeRoom() {
        var eldest = known.values().iterator();
        while (known.size() >= capacity && eldest.hasNext()) {
            if (!eldest.next().isUsed()) {
                eldest.remove();
            }
        }
        if (known.size() >= capacity) {
            throw new CannotAcquireLockException("all " + capacity + " locks that may be remembered are in use");
        }
    }

    private RedisLock named(String path) {
        RedisLock lock = locks.get(registryKey + ":" + path);
        return expireAfter == null ? lock : lock.fixed(expireAfter);
    }

    @Override
    public void expireUnusedOlderThan(long age) {
        synchronized (known) {
            known.values().removeIf(lock -> lock.isUnusedFor(age));
        }
    }

    /** Gives this thread's lock its time again; a lock without a time is only checked. */
    @Override
    public void renewLock(Object lockKey) {
        renew(lockKey, expireAfter);
    }

    /** Gives this thread's lock this time, which begins now. */
    public void renewLock(Object lockKey, Duration ttl) {
        renew(lockKey, ttl);
    }

    private void renew(Object lockKey, @Nullable Duration ttl) {
        try {
            lock(lockKey).renew(ttl);
        } catch (LockException | IllegalMonitorStateException e) {
            throw new IllegalStateException("Could not renew mutex at " + lockKey, e);
        }
    }
}
