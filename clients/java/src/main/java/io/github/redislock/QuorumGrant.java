package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
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
    // Of the monitor.
    final Map<Grant, Core> parts = new LinkedHashMap<>(); // that are not lost
    private final List<String> losses = new ArrayList<>();
    private final List<Consumer<LockLostException>> onLost = new ArrayList<>();
    private @Nullable LockException ending; // why it is held no more

    QuorumGrant(Quorum quorum, String key, long token, @Nullable Consumer<LockLostException> onLost) {
        this.quorum = quorum;
        this.key = key;
        this.token = token;
        if (onLost != null) {
            this.onLost.add(onLost);
        }
    }

    /** Takes in what one more server has granted. False if the lock has ended. */
    boolean add(Grant part, Core member) {
        synchronized (this) {
            if (ending != null) {
                return false;
            }
            parts.put(part, member);
        }
        part.onLost(why -> lost(part, why));
        return true;
    }

    /** Goes on without a part, as long as a majority is left. */
    private synchronized void lost(Grant part, LockLostException why) {
        losses.add(String.valueOf(why.getMessage()));
        parts.remove(part);
        if (ending != null || parts.size() >= quorum.majority) {
            return;
        }
        LockLostException loss = (LockLostException) LockException.of("hold", key, Fault.of(Kind.LOST, String.join("; ", losses)));
        ending = loss;
        Core first = quorum.members.get(0);
        onLost.forEach(notify -> first.elsewhere(() -> notify.accept(loss)));
        first.elsewhere(() -> quorum.observer.lost(key, loss));
        parts.forEach((rest, member) -> member.elsewhere(rest::giveUp));
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
        if (ending != null) {
            return Duration.ZERO;
        }
        List<Duration> left = parts.keySet().stream().map(Grant::remaining).sorted().toList();
        return left.size() < quorum.majority ? Duration.ZERO : left.get(left.size() - quorum.majority);
    }

    /** What has become of it: null until it is lost. */
    public synchronized @Nullable LockLostException loss() {
        return ending instanceof LockLostException lost ? lost : null;
    }

    /**
     * Calls this on a thread of the client when the lock is lost, not when it is released; at once if it is lost. An exception
     * of it is logged.
     */
    public synchronized void onLost(Consumer<LockLostException> notify) {
        if (ending instanceof LockLostException lost) {
            quorum.members.get(0).elsewhere(() -> notify.accept(lost));
        }
        onLost.add(notify);
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
        Core.observed(quorum.observer, LockObserver::released, key, taken, () -> {
            ask("release", Grant::release);
            return this;
        });
    }

    /** As {@link #release}, and nothing if it was released. */
    @Override
    public void close() {
        boolean isReleased;
        synchronized (this) {
            isReleased = ending instanceof LockMisuseException;
        }
        if (!isReleased) {
            release();
        }
    }

    /** Makes a call about each part at once. It returns when a majority has agreed, or all have answered. */
    private void ask(String attempted, Consumer<Grant> call) {
        Map<Grant, Core> asked;
        synchronized (this) {
            if (ending != null) {
                throw LockException.of(attempted, key, Fault.of(LockException.kindOf(ending), String.valueOf(ending.getMessage())));
            }
            asked = new LinkedHashMap<>(parts);
            if (attempted.equals("release")) {
                ending = LockException.misuse(key + " was released already");
            }
        }
        CompletableFuture<Boolean> isAgreed = new CompletableFuture<>();
        AtomicInteger agreed = new AtomicInteger();
        Queue<LockException> errors = new ConcurrentLinkedQueue<>();
        AtomicInteger open = new AtomicInteger(asked.size());
        asked.forEach((part, member) -> member.elsewhere(() -> {
            try {
                call.accept(part);
                if (agreed.incrementAndGet() == quorum.majority) {
                    isAgreed.complete(true);
                }
            } catch (LockException e) {
                errors.add(e);
            } finally {
                if (open.decrementAndGet() == 0) {
                    isAgreed.complete(false);
                }
            }
        }));
        if (!asked.isEmpty() && isAgreed.join()) {
            return;
        }
        long lost = errors.stream().filter(error -> error instanceof LockLostException).count();
        Kind kind = asked.size() - lost < quorum.majority ? Kind.LOST : errors.stream().map(LockException::kindOf)
                .filter(of -> of != Kind.LOST).findFirst().orElse(Kind.UNAVAILABLE);
        throw LockException.of(attempted, key, Fault.of(kind, "no majority of the servers; "
                + errors.stream().map(LockException::getMessage).collect(Collectors.joining("; "))));
    }

    @Override
    public String toString() {
        return key + " (" + token + (isHeld() ? ", held)" : ")");
    }
}
