package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.spi.LockServer;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** What the parts of a client of one server share: the server, its keepers, and connections that wait. */
final class Core extends Scope {
    private final LockServer server;
    private final Look look = new Look(this);
    private final Names names = new Names(this);
    private final Map<String, Keeper> keepers = new ConcurrentHashMap<>();
    private final Map<String, WaitLines> waitLines = new ConcurrentHashMap<>();
    private final Map<String, Integer> waiting = new ConcurrentHashMap<>();
    final Set<Acquire> acquires = ConcurrentHashMap.newKeySet();
    final Set<Call> calls = ConcurrentHashMap.newKeySet();
    final Takeovers takeovers = new Takeovers(this);
    private final Object mapLock = new Object();
    private @Nullable CompletableFuture<Void> refreshing;

    Core(LockServer server, Settings settings) {
        super(settings);
        this.server = server;
    }

    @Override
    Attempt take(LockSpec spec, @Nullable String owner, @Nullable Task task, long wait, Caller caller) {
        if (owner != null && task == null) {
            return names.acquire(owner, spec, wait, caller);
        }
        boolean isNamed = owner != null && (task == null || task.isNamed());
        Owner by = new Owner(owner == null ? freshOwner() : owner, task, isNamed);
        Acquire acquire = new Acquire(this, spec, by, wait, caller).begin();
        return new Attempt(acquire.result(), acquire::end, this, caller);
    }

    @Override
    Ownership adoptOthers(LockSpec spec, String owner, long token) {
        return Attempt.await(names.adopt(owner, spec, token));
    }

    @Override
    Look look() {
        return look;
    }

    /** The keeper of the node that serves the key; null where that is not known. */
    @Nullable Keeper keeperNow(String key) {
        String node = server.node(key);
        return node == null ? null : keepers.computeIfAbsent(node, name -> new Keeper(this, name));
    }

    /** The same; where that is not known any more, the one that has given this answer. */
    Keeper keeperOf(String key, Answer answer) {
        Keeper now = keeperNow(key);
        return now != null ? now : keepers.values().stream().filter(keeper -> keeper.openLine() == answer.line())
                .findFirst().orElseGet(() -> keepers.values().iterator().next());
    }

    CompletableFuture<Keeper> keeper(String key) {
        Keeper known = keeperNow(key);
        if (known != null) {
            return CompletableFuture.completedFuture(known);
        }
        return refresh().thenCompose(nothing -> {
            Keeper found = keeperNow(key);
            return found != null ? CompletableFuture.completedFuture(found)
                    : CompletableFuture.failedFuture(new IOException("no node serves the slot of " + key));
        });
    }

    WaitLines waitLines(String node) {
        return waitLines.computeIfAbsent(node, name -> new WaitLines(this, () -> connect(name, "lock-wait")));
    }

    /** Asks where the keys are. Those who ask at the same time ask once. */
    CompletableFuture<Void> refresh() {
        CompletableFuture<Void> mine;
        synchronized (mapLock) {
            if (refreshing != null) {
                return refreshing;
            }
            mine = new CompletableFuture<>();
            refreshing = mine;
        }
        execute(() -> {
            Throwable failure = null;
            try {
                server.refresh(Duration.ofNanos(settings().reply()));
            } catch (Throwable e) { // an Error too has to be told
                failure = e;
            }
            synchronized (mapLock) {
                refreshing = null;
            }
            if (failure == null) {
                mine.complete(null);
            } else {
                mine.completeExceptionally(failure);
            }
        });
        return mine;
    }

    /** The same where this error says that another node serves the key. */
    void refreshAfter(String error) {
        if (error.startsWith("MOVED") || error.startsWith("CLUSTERDOWN")) {
            refresh();
        }
    }

    Line connect(String node, String name) throws IOException {
        return connect(server, node, name);
    }

    boolean isAwaited(String key) {
        return waiting.containsKey(key);
    }

    void waits(String key, int more) {
        waiting.merge(key, more, (before, change) -> before + change == 0 ? null : before + change);
    }

    @Override
    Collection<? extends CompletableFuture<?>> callOff(LockMisuseException reason) {
        return acquires.stream().map(acquire -> {
            acquire.end(reason);
            return acquire.result();
        }).toList();
    }

    @Override
    Collection<? extends CompletableFuture<?>> releasing() {
        return calls.stream().map(Call::result).toList();
    }

    @Override
    void disconnect(LockMisuseException reason) {
        IOException why = new IOException("the locks are closed");
        keepers.values().forEach(keeper -> keeper.close(why));
        waitLines.values().forEach(lines -> lines.close(why));
        acquires.forEach(acquire -> acquire.abandon(reason));
        calls.forEach(call -> call.abandon(closedError()));
    }

    @Override
    void closeServers() {
        server.close();
    }
}
