package io.github.redislock;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What threads hold by {@link ThreadLock}: each thread is one owner for as long as it holds a lock. */
final class Threads {
    private final Core core;
    private final Map<Thread, Task> all = new ConcurrentHashMap<>();
    private long looked;

    Threads(Core core) {
        this.core = core;
    }

    /** The task of this thread. */
    Task mine() {
        Task mine = all.get(Thread.currentThread());
        return mine != null ? mine : new Task(core);
    }

    /** Remembers the task of this thread while it holds anything. */
    void keep(Task mine) {
        if (mine.keys().isEmpty()) {
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
                    core.warn("the thread " + thread.getName() + " has ended without unlock of " + mine.keys()
                            + ", which stays held until this client is closed");
                }
            });
        }
    }
}
