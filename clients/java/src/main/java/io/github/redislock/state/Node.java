package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/** What is known of one server: its session. */
public final class Node {
    /** Until when a POLL makes grants sure. */
    record Sure(long sent, long till) {}

    /** Its name in messages. */
    public final String address;
    /** 0: none. */
    public long session;
    /** No POLL of the session has been answered. */
    public boolean isNew;
    /** Called, without the mutex, to send a release to the node of the cluster that has its key; must not block. */
    public Consumer<String[]> resend = command -> { };

    final Set<Claim> grants = new LinkedHashSet<>(); // that the session renews, or will
    final List<Ledger.Release> leaves = new ArrayList<>(); // grants that leave the session, until their `taken`
    long seen; // the number of the last event that was applied
    final List<Sure> sures = new ArrayList<>(); // by POLL; each reaches less far than those before it
    long soonest = Claim.FAR; // no grant's time ends before
    boolean polls; // in the next round
    boolean isOutside; // a grant or place may belong to an earlier session
    long excess = -1; // since when every reply shows more grants than are known; below 0: it does not
    final Deque<Long> tries = new ArrayDeque<>(); // that failed
    Fault fault = Fault.NONE; // of the last try
    boolean leaving; // a release was refused
    final Map<Long, Long> left = new LinkedHashMap<>(); // sessions that were left, and when

    /** A server without a session. */
    public Node(String address) {
        this.address = address;
    }

    boolean hasGrantIn(long session) {
        return grants.stream().anyMatch(grant -> grant.session == session);
    }

    /** Those that a close leaves to be closed. */
    public List<Long> sessions() {
        List<Long> sessions = new ArrayList<>(left.keySet());
        if (session != 0) {
            sessions.add(session);
        }
        return sessions;
    }
}
