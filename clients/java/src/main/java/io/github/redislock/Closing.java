package io.github.redislock;

import io.github.redislock.state.Answer;
import io.github.redislock.state.Claim;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The end of a client: closes its sessions, releases what is in none, and ends the loops, within two reply timeouts. */
final class Closing {
    private final Core core;
    private final List<Claim> grants;
    private final long end;
    private final Set<Long> closed = ConcurrentHashMap.newKeySet();

    Closing(Core core, List<Claim> grants) {
        this.core = core;
        this.grants = grants;
        end = Core.now() + 2 * core.settings.reply();
    }

    void run() {
        List<Loop> loops = core.atomically(state -> List.copyOf(core.loops.values()));
        List<Runnable> calls = new ArrayList<>();
        for (Loop loop : loops) {
            for (long session : loop.node.sessions()) {
                calls.add(() -> {
                    String[] words = {"LOCK.SESSION", "CLOSE", String.valueOf(session)};
                    Answer answer = core.call(new Core.Target(loop), end, at -> words);
                    if (answer.reply().fault() == null) {
                        closed.add(session);
                    }
                });
            }
        }
        all(calls);
        all(grants.stream().filter(grant -> !closed.contains(grant.session)).<Runnable>map(grant ->
                () -> core.call(new Core.Target(grant.name.key()), end, at -> grant.releaseCommand())).toList());
        loops.forEach(loop -> loop.end(end));
    }

    /** Does all at once, by some threads. */
    private void all(List<Runnable> calls) {
        List<Thread> threads = new ArrayList<>();
        java.util.Iterator<Runnable> rest = calls.iterator();
        for (int i = 0; i < Math.min(calls.size(), 16); i++) {
            Thread thread = core.thread("close", () -> {
                for (Runnable call = next(rest); call != null; call = next(rest)) {
                    call.run();
                }
            });
            thread.start();
            threads.add(thread);
        }
        threads.forEach(thread -> Core.join(thread, end + core.settings.reply() - Core.now()));
    }

    private static <T> T next(java.util.Iterator<T> rest) {
        synchronized (rest) {
            return rest.hasNext() ? rest.next() : null;
        }
    }
}
