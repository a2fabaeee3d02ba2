package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A lock that a majority of the servers has granted, until its release or its loss. Any thread may use it.
 *
 * <pre>{@code
 * try (QuorumGrant grant = quorum.get("lock:orders:42").lock()) {
 *     grant.check(); // before a critical step
 *     pay(grant.token());
 * }
 * }</pre>
 */
public final class QuorumGrant implements AutoCloseable {
    private final Quorum quorum;
    private final String key;
    private final long token;
    private final long taken = Core.now();
    private final CompletableFuture<LockLostException> loss = new CompletableFuture<>();
    // Of the monitor.
    final Set<Grant> parts = new LinkedHashSet<>(); // that are not lost
    private final List<String> losses = new ArrayList<>();
    private volatile boolean isReleased;

    QuorumGrant(Quorum quorum, String key, long token, @Nullable Consumer<LockLostException> onLost) {
        this.quorum = quorum;
        this.key = key;
        this.token = token;
        if (onLost != null) {
            onLost(onLost);
        }
        onLost(lost -> quorum.observer.lost(key, lost));
    }

    /** Takes in what one more server has granted. False if the lock has ended. */
    synchronized boolean add(Grant part) {
        boolean isHeld = !isReleased && !loss.isDone();
        if (isHeld) {
            parts.add(part);
            part.onLost(why -> lost(part, why));
        }
        return isHeld;
    }

    /** Goes on without a part, as long as a majority is left. */
    private synchronized void lost(Grant part, LockLostException why) {
        losses.add(String.valueOf(why.getMessage()));
        parts.remove(part);
        if (!isReleased && parts.size() < quorum.majority
                && loss.complete((LockLostException) error("hold", Kind.LOST, String.join("; ", losses)))) {
            parts.forEach(rest -> rest.core.elsewhere(rest::giveUp));
        }
    }

    private LockException error(String attempted, Kind kind, String why) {
        return LockException.of(attempted, key, Fault.of(kind, why));
    }

    /** The key of the lock, with the client's prefix. */
    public String key() {
        return key;
    }

    /** The fencing token, the same on all servers of the majority: later grants of the lock have higher ones. */
    public long token() {
        return token;
    }

    /** Whether nobody else has the lock, by the clock alone. It is false also while a majority of servers is silent. */
    public boolean isHeld() {
        return !remaining().isZero();
    }

    /** For how long {@link #isHeld} stays true without another reply of a server. */
    public synchronized Duration remaining() {
        List<Duration> left = parts.stream().map(Grant::remaining).sorted().toList();
        boolean isOver = isReleased || left.size() < quorum.majority;
        return isOver ? Duration.ZERO : left.get(left.size() - quorum.majority);
    }

    /** What has become of it: null until it is lost. */
    public @Nullable LockLostException loss() {
        return loss.getNow(null);
    }

    /**
     * Calls this on a thread of the client when the lock is lost, not when it is released; at once if it is lost. An exception
     * of it is logged.
     */
    public void onLost(Consumer<LockLostException> notify) {
        loss.thenAccept(lost -> quorum.members.get(0).elsewhere(() -> notify.accept(lost)));
    }

    /**
     * Asks the servers whether the grant stands.
     *
     * @throws LockLostException if a majority does not have it any more
     * @throws LockUnavailableException if too few servers have answered within two reply timeouts
     * @throws LockMisuseException if it was released
     */
    public void check() {
        ask("check", Grant::check);
    }

    /**
     * Gives the lock another lease, from now on, as {@link Grant#extend} does.
     *
     * @throws LockLostException if a majority does not have it any more
     * @throws LockUnavailableException if too few servers have answered within two reply timeouts
     * @throws LockMisuseException if it was released, or the lease is too short
     */
    public void extend(Duration lease) {
        ask("extend", grant -> grant.extend(lease));
    }

    /**
     * Gives the lock back on all servers. It returns when a majority has answered; the sessions repeat what the others have
     * not answered.
     *
     * @throws LockLostException if it was lost before
     * @throws LockUnavailableException if too few servers have answered within two reply timeouts
     * @throws LockMisuseException if it was released already
     */
    public void release() {
        Core.observed((held, error) -> quorum.observer.released(key, held, error), taken, () -> {
            ask("release", Grant::release);
            return this;
        });
    }

    /** As {@link #release}, and nothing if it was released. */
    @Override
    public void close() {
        if (!isReleased) {
            release();
        }
    }

    /** Makes a call about each part at once. It returns when a majority has agreed, or all have answered. */
    private void ask(String attempted, Consumer<Grant> call) {
        List<Grant> asked;
        synchronized (this) {
            LockLostException lost = loss();
            if (lost != null || isReleased) {
                throw lost != null ? error(attempted, Kind.LOST, String.valueOf(lost.getMessage()))
                        : error(attempted, Kind.MISUSE, "it was released already");
            }
            asked = List.copyOf(parts);
            isReleased = attempted.equals("release");
        }
        AtomicInteger agreed = new AtomicInteger();
        CompletableFuture<Void> isAgreed = new CompletableFuture<>();
        Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
        CompletableFuture<?>[] calls = asked.stream().map(part ->
                CompletableFuture.runAsync(() -> call.accept(part), part.core::elsewhere).handle((none, error) -> {
                    if (error != null) {
                        errors.add(error.getCause());
                    } else if (agreed.incrementAndGet() == quorum.majority) {
                        isAgreed.complete(null);
                    }
                    return null;
                })).toArray(CompletableFuture[]::new);
        CompletableFuture.anyOf(isAgreed, CompletableFuture.allOf(calls)).join();
        if (agreed.get() < quorum.majority) {
            long lost = errors.stream().filter(error -> error instanceof LockLostException).count();
            Kind kind = asked.size() - lost < quorum.majority ? Kind.LOST : errors.stream().map(LockException::kindOf)
                    .filter(of -> of != Kind.LOST).findFirst().orElse(Kind.UNAVAILABLE);
            throw error(attempted, kind, "no majority of the servers; "
                    + errors.stream().map(Throwable::getMessage).collect(Collectors.joining("; ")));
        }
    }

    @Override
    public String toString() {
        return key + " (" + token + (isHeld() ? ", held)" : ")");
    }
}
