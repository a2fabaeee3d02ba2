package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One acquire: first a wait, then a grant. */
public final class Claim {
    /** How far it has come. OVER is a wait that ended without a grant. A grant is unsure if its time has passed. */
    public enum Phase { ASKED, IN_LINE, OVER, HELD, LOST, RELEASED }

    /** The end of a wait without a limit. */
    static final long FAR = 1L << 61;
    private static final long TEN_YEARS = TimeUnit.DAYS.toNanos(3650); // the longest time that the server takes

    /** The key and the owner. */
    public final Name name;
    /** The words SHARED or LIMIT n. */
    public final List<String> mode;
    /** The lease in nanoseconds. */
    public long lease;
    /** The lease is not renewed: the grant leaves its session before the user has it. */
    public boolean isFixed;
    /** The token of a grant to adopt, instead of a new one. */
    public long adopted;
    /** The task in whose name it is, if it is one. */
    public @Nullable OwnerOfTask task;
    /** Called, without the mutex, when the caller has to look again, or to look for a grant in doubt; must not block. */
    public Runnable wake = () -> { };

    /** The server that has the lock. */
    public Node node;
    /** How far it has come. */
    public Phase phase = Phase.ASKED;
    /** Of the place, or of the grant; 0: none. */
    public long session;
    /** The fencing token. */
    public long token;
    /** How often the owner holds it. */
    public long holds = 1;
    /** Of the loss. */
    public @Nullable String reason;
    /** Another node of the cluster may have the grant: the reason of its loss if not. */
    public volatile @Nullable String doubt;
    /** The user has the grant. */
    public boolean isHandedOver;
    /** How long one try may take. */
    public final long limit;
    /** When asking without a reply ends. */
    public final long askedEnd;
    /** When the caller gives up at the latest. */
    public final long last;

    final boolean queues;
    final long end; // of the caller's time
    int open; // acquires without a reply, which the server may still carry out
    long endedAt = Long.MIN_VALUE; // when its session reported the end of a place with a passing error
    Fault cause = Fault.NONE; // of the last try
    Fault ending = Fault.NONE; // why the wait is over

    long sure; // see Grants.sure
    long from; // no POLL sent before makes it sure

    /** A claim that waits for this long from now on. 0: it does not wait; below 0: without a limit. */
    public Claim(Name name, List<String> mode, long lease, long wait, long reply, long at, Node node) {
        long time = wait < 0 || wait > FAR - at - reply ? FAR - at - reply : wait;
        long asking = Math.max(time, reply);
        this.name = name;
        this.mode = mode;
        this.lease = lease;
        this.node = node;
        queues = wait != 0;
        limit = Math.min(reply, asking / 2);
        end = at + time;
        askedEnd = at + asking;
        last = at + time + reply;
    }

    static String millis(long nanos) {
        return String.valueOf((nanos + 999_999) / 1_000_000);
    }

    /** A command of these words, in which a list stands for several. */
    public static String[] words(Object... words) {
        List<String> all = new ArrayList<>(words.length + 4);
        for (Object word : words) {
            if (word instanceof List<?> more) {
                more.forEach(one -> all.add(one.toString()));
            } else {
                all.add(word.toString());
            }
        }
        return all.toArray(String[]::new);
    }

    /** Asks for the lock. HOLDS 1 makes it safe to repeat. */
    public String[] acquireCommand(long session, long at) {
        String time = millis(Math.max(lease, TimeUnit.SECONDS.toNanos(1))); // the least that the server renews
        if (adopted != 0) {
            return words("LOCK.RENEW", name.key(), name.owner(), "PX", time, "SESSION", session, "TOKEN", adopted);
        }
        long rest = last == FAR ? 0 : Math.max(1, TimeUnit.NANOSECONDS.toMillis(Math.min(end - at, TEN_YEARS)));
        return words("LOCK.ACQUIRE", name.key(), name.owner(), mode, "PX", time, "HOLDS", 1, "SESSION", session,
                queues ? List.of("QUEUE", rest) : List.of());
    }

    /** The user's own release, after which its owner has so many holds. It alone names the session, so that the server reports no loss. */
    public String[] releaseCommand(long holds) {
        return words("LOCK.RELEASE", name.key(), name.owner(), "HOLDS", holds, "TOKEN", token,
                session != 0 ? List.of("SESSION", session) : List.of());
    }

    /** Renews the grant, and moves it to this session; 0: stays where it is. */
    public String[] renewCommand(long session) {
        return words("LOCK.RENEW", name.key(), name.owner(), session != 0 ? List.of("SESSION", session) : List.of(), "TOKEN",
                token);
    }

    boolean isWaiting() {
        return phase == Phase.ASKED || phase == Phase.IN_LINE;
    }

    void renounceOwner() {
        if (task != null) {
            task.owner = null;
        }
    }
}
