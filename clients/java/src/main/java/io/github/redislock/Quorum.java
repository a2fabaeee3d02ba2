package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import io.github.redislock.QuorumOutcome.Got;
import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.LockServer;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** What the parts of a client of several servers share, and the calls to all of them: docs/quorum.md is the protocol. */
final class Quorum extends Scope {
    /** The least that a server is given to answer: else good servers would seem to be down. */
    private static final long LEAST_LIMIT = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long AGAIN = TimeUnit.MILLISECONDS.toNanos(50);
    private static final Function<QuorumMember, CompletableFuture<?>> NONE = member -> CompletableFuture.completedFuture(null);

    private final List<QuorumMember> members = new ArrayList<>();
    final Set<QuorumAcquire> acquires = ConcurrentHashMap.newKeySet();
    private final Set<CompletableFuture<?>> background = ConcurrentHashMap.newKeySet();
    /** What stops the last call of an owner to a server, while any of the calls is under way. */
    private final Map<String, Function<QuorumMember, CompletableFuture<?>>> latest = new ConcurrentHashMap<>();

    /** These servers, where they can decide together. */
    static List<LockServer> checked(Collection<? extends LockServer> servers) {
        if (servers.size() < 3 || servers.size() % 2 == 0) {
            throw new LockMisuseException("a quorum has three servers, or a larger odd number of them", null);
        }
        Set<Object> voices = new HashSet<>();
        for (LockServer server : servers) {
            if (server instanceof ClusterServer) {
                throw new LockMisuseException("a cluster is no server of a quorum", null);
            }
            if (!voices.add(server) || !server.name().isEmpty() && !voices.add(server.name())) {
                throw new LockMisuseException("a server has only one voice in a quorum", null);
            }
        }
        return List.copyOf(servers);
    }

    Quorum(List<LockServer> servers, Settings settings) {
        super(settings);
        for (LockServer server : servers) {
            String name = server.name().isEmpty() ? "server " + (members.size() + 1) : server.name();
            members.add(new QuorumMember(this, server, name));
        }
    }

    /** In the order in which they were given. */
    List<QuorumMember> members() {
        return members;
    }

    /** How many servers are more than half of them. */
    int majority() {
        return members.size() / 2 + 1;
    }

    /** The servers' clocks may run a little faster than this one: so much sooner a lease is trusted no more. */
    static long drift(long lease) {
        return lease / 100 + TimeUnit.MILLISECONDS.toNanos(2);
    }

    /** Until when a lease may be trusted that began then or a little later. */
    static long trustedUntil(long start, long lease) {
        return start + lease - drift(lease);
    }

    /**
     * How long a server may take to answer a call about a lock with this lease: far below it, so that most of the lease
     * is left when a majority has answered. Two rounds stay within a reply's time.
     */
    long limit(long lease) {
        return Math.min(Math.max(lease / 10, LEAST_LIMIT), settings().reply() / 2);
    }

    private static LockMisuseException misuse() {
        return new LockMisuseException("on several servers a lock has one holder, with an owner for each grant, and no"
                + " replicas; and nobody but its holder is told of it", null);
    }

    @Override
    void check(LockSpec spec, @Nullable String owner) {
        if (!spec.isExclusive() || owner != null || spec.replicas() > 0) {
            throw misuse();
        }
    }

    @Override
    boolean canShare() {
        return false;
    }

    @Override
    Look look() {
        throw misuse();
    }

    @Override
    Attempt take(LockSpec spec, @Nullable String owner, @Nullable Task task, long wait, Caller caller) {
        QuorumAcquire acquire = new QuorumAcquire(this, spec, task, wait).begin();
        return new Attempt(acquire.result(), acquire::end, this, Caller.NONE);
    }

    @Override
    Ownership adoptOthers(LockSpec spec, String owner, long token) {
        long lease = spec.lease().toNanos();
        return Attempt.await(renew(spec.key(), owner, token, lease, settings().reply())
                .thenApply(start -> hold(spec, owner, new Got(token, start), null)));
    }

    /** What was got is held from now on. */
    Ownership hold(LockSpec spec, String owner, Got got, @Nullable Task task) {
        QuorumHeld grant = new QuorumHeld(this, spec, owner, got, task);
        held.add(grant);
        grant.begin();
        if (isClosed()) {
            inBackground(grant.close());
        }
        return grant;
    }

    /**
     * Begins the lease anew, and gives the time since which it is counted. A server that does not have the grant any
     * more does not get it back: somebody else may have had the lock there in between, and a majority pieced together
     * like that would hide it.
     */
    CompletableFuture<Long> renew(String key, String owner, long token, long lease, long time) {
        long millis = Math.max(1, TimeUnit.NANOSECONDS.toMillis(lease));
        Words words = Words.of("LOCK.RENEW", key, owner, "PX", millis, "TOKEN", token);
        return ask(key, owner, words, lease, time).thenApply(start -> {
            if (trustedUntil(start, lease) - System.nanoTime() <= 0) {
                throw new LockLostException(key + ": the answers came too late", null);
            }
            return start;
        });
    }

    /**
     * Has a majority answer, again and again for so long, and gives the time at which those that did were asked. It is a
     * loss where a majority says that the grant is not there.
     *
     * @param renewed whose grant is renewed by that; null where it is only asked for
     */
    CompletableFuture<Long> ask(String key, @Nullable String renewed, Words words, long lease, long time) {
        CompletableFuture<Long> asked = new CompletableFuture<>();
        ask(key, renewed, words, limit(lease), System.nanoTime() + time, asked);
        Future<?> alarm = after(time, () -> asked.completeExceptionally(tooFew(key, member -> null)));
        return asked.whenComplete((start, failure) -> alarm.cancel(false));
    }

    private void ask(String key, @Nullable String renewed, Words words, long limit, long until,
            CompletableFuture<Long> asked) {
        QuorumRound round = new QuorumRound(this, key, Kind.RENEW);
        Map<QuorumMember, QuorumCall> calls = new HashMap<>();
        members.forEach(member -> calls.put(member, new QuorumCall(this, member, words, limit)));
        Function<QuorumMember, CompletableFuture<?>> before = renewed == null ? NONE
                : next(renewed, member -> calls.get(member).stop(), round.heard());
        long start = System.nanoTime();
        round.ask(member -> before.apply(member).thenCompose(stopped -> calls.get(member).start()));
        round.decided().thenRun(() -> {
            LockException error = round.error();
            if (round.isDone()) {
                asked.complete(start);
            } else if (error != null) {
                asked.completeExceptionally(error);
            } else if (System.nanoTime() + AGAIN - until >= 0) {
                asked.completeExceptionally(round.tooFew());
            } else {
                after(AGAIN, () -> ask(key, renewed, words, limit, until, asked));
            }
        });
    }

    /**
     * From now on these are the last calls of the owner, until their end. Gives what stops the call before to a server:
     * it is not sent any more, nor again, and tells when it is not being sent.
     */
    Function<QuorumMember, CompletableFuture<?>> next(String owner, Function<QuorumMember, CompletableFuture<?>> stop,
            CompletableFuture<?> end) {
        Function<QuorumMember, CompletableFuture<?>> before = latest.put(owner, stop);
        end.whenComplete((nothing, failure) -> latest.remove(owner, stop));
        return before == null ? NONE : before;
    }

    /** Frees it on all servers, also on those that have not granted it: they may have since. */
    QuorumRound release(String key, String owner) {
        QuorumRound round = new QuorumRound(this, key, Kind.RELEASE);
        Function<QuorumMember, CompletableFuture<?>> before = latest.getOrDefault(owner, NONE);
        round.ask(member -> before.apply(member).thenCompose(stopped -> member.release(key, owner, null, settings().reply())));
        inBackground(round.heard());
        return round;
    }

    /** The same, when nobody asks what came of it. Is completed when it was tried on all servers. */
    CompletableFuture<?> giveBack(String key, String owner) {
        return release(key, owner).heard();
    }

    /** What is waited for when the locks are closed. */
    void inBackground(CompletableFuture<?> work) {
        if (!work.isDone()) {
            background.add(work);
            work.whenComplete((nothing, failure) -> background.remove(work));
        }
    }

    /** Is completed with this, or after so long. */
    CompletableFuture<?> soonest(CompletableFuture<?> work, long nanos) {
        if (work.isDone()) {
            return work;
        }
        CompletableFuture<@Nullable Void> soonest = new CompletableFuture<>();
        Future<?> alarm = after(nanos, () -> soonest.complete(null));
        work.whenComplete((nothing, failure) -> {
            alarm.cancel(false);
            soonest.complete(null);
        });
        return soonest;
    }

    /** Tells which servers cannot be used, and why. */
    LockUnavailableException tooFew(String key, Function<QuorumMember, @Nullable Throwable> failures) {
        StringBuilder text = new StringBuilder();
        Throwable cause = null;
        int usable = members.size();
        for (QuorumMember member : members) {
            Throwable failure = failures.apply(member);
            Throwable why = failure != null ? failure : member.down();
            if (why != null) {
                usable--;
                cause = cause == null ? why : cause;
                text.append("; ").append(member).append(": ").append(why.getMessage());
            }
        }
        return new LockUnavailableException(key + ": " + usable + " of " + members.size()
                + " servers can be used, and it takes " + majority() + text, cause);
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
        return background;
    }

    @Override
    void disconnect(LockMisuseException reason) {
        IOException why = new IOException("the locks are closed");
        members.forEach(member -> member.close(why));
        acquires.forEach(acquire -> acquire.abandon(reason));
    }

    @Override
    void closeServers() {
        members.forEach(QuorumMember::closeServer);
    }
}
