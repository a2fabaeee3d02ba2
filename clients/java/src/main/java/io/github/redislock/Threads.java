package io.github.redislock;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** What threads hold by {@link ThreadLock}: each thread is one owner for as long as it holds a lock. */
final class Threads {
    /** Only its thread changes it. */
    static final class Mine {
        final Task task;
        final List<Grant> holds = new ArrayList<>(); // a grant as often as its lock was locked

        Mine(Task task) {
            this.task = task;
        }

        int count(String key) {
            return (int) holds.stream().filter(grant -> grant.key().equals(key)).count();
        }

        @Nullable Grant of(String key) {
            return holds.stream().filter(grant -> grant.key().equals(key)).findFirst().orElse(null);
        }
    }

    private final Core core;
    private final Map<Thread, Mine> all = new ConcurrentHashMap<>();
    private long looked;

    Threads(Core core) {
        this.core = core;
    }

    Mine mine() {
        Mine mine = all.get(Thread.currentThread());
        return mine != null ? mine : new Mine(new Task(core));
    }

    /** Remembers what this thread holds, if it holds anything. */
    void keep(Mine mine) {
        if (mine.holds.isEmpty()) {
            all.remove(Thread.currentThread());
        } else {
            all.put(Thread.currentThread(), mine);
        }
    }

    /** Warns of threads that have ended without unlock: nobody else can unlock what they hold. The loops call it. */
    synchronized void warnOfEnded() {
        if (Core.now() - looked > core.settings.reply()) {
            looked = Core.now();
            all.forEach((thread, mine) -> {
                if (!thread.isAlive()) {
                    all.remove(thread);
                    core.warn("the thread " + thread.getName() + " has ended without unlock of "
                            + mine.holds.stream().map(Grant::key).distinct().toList()
                            + ", which stays held until this client is closed");
                }
            });
        }
    }
}
