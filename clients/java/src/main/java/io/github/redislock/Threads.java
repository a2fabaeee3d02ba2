package io.github.redislock;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** What threads hold by {@link ThreadLock}: each thread is one owner for as long as it holds a lock. */
final class Threads {
    /** A grant, and how often the thread has locked it. */
    static final class Held {
        final Grant grant;
        int count;

        Held(Grant grant) {
            this.grant = grant;
        }
    }

    /** Only its thread changes it. */
    static final class Mine {
        final Task task;
        final Map<String, Held> held = new HashMap<>();

        Mine(Task task) {
            this.task = task;
        }
    }

    private final Core core;
    private final Map<Thread, Mine> all = new ConcurrentHashMap<>();
    private long looked;

    Threads(Core core) {
        this.core = core;
    }

    Mine mine() {
        return all.computeIfAbsent(Thread.currentThread(), thread -> new Mine(new Task(core)));
    }

    @Nullable Held held(String key) {
        Mine mine = all.get(Thread.currentThread());
        return mine == null ? null : mine.held.get(key);
    }

    /** Forgets this thread if it holds nothing. */
    void tidy() {
        Mine mine = all.get(Thread.currentThread());
        if (mine != null && mine.held.isEmpty()) {
            all.remove(Thread.currentThread());
        }
    }

    /** Warns of threads that have ended without unlock: nobody else can unlock what they hold. The loops call it. */
    synchronized void warnOfEnded() {
        if (Core.now() - looked > core.settings.reply()) {
            looked = Core.now();
            all.entrySet().removeIf(one -> {
                boolean hasEnded = !one.getKey().isAlive();
                if (hasEnded) {
                    core.warn("the thread " + one.getKey().getName() + " has ended without unlock of "
                            + one.getValue().held.keySet() + ", which stays held until this client is closed");
                }
                return hasEnded;
            });
        }
    }
}
