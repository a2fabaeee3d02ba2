package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.ObjLongConsumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** What is known of all servers, and the rules of their sessions. Its callers hold a mutex. */
public final class State extends Waits {
    private static final int OPEN_TIMES = 500; // as many replies have one reply timeout more

    /** lease is that of the sessions, reply how long a reply may take. */
    public State(long lease, long reply, boolean isCluster) {
        super(lease, reply, isCluster);
    }

    /** Whether nothing depends on the session. */
    public boolean isIdle(Node node) {
        return claims.values().stream().noneMatch(it -> it.node == node && !(it.isFixed && it.isHandedOver))
                && unfinished.values().stream().noneMatch(how -> how.node() == node)
                && node.left.isEmpty() && calls.isEmpty();
    }

    /** Begins a session; 0: there is none yet. */
    void opened(Node node, long session) {
        if (session == 0) {
            return;
        }
        node.session = session;
        node.isNew = true;
        node.seen = 0;
        node.excess = -1;
        node.fault = Fault.NONE;
        node.isOutside = true;
        wakeWaits(node);
    }

    private void wakeWaits(Node node) {
        claims.values().stream().filter(it -> it.node == node && it.isWaiting()).forEach(this::wake);
    }

    /** The next round: OPEN without a session, what is due, or a POLL. */
    public Round round(Node node, String[] open) {
        leaveSession(node);
        if (node.session == 0) {
            return session(open, 0, fault -> true, (reply, sent) -> opened(node, Reply.number(reply.value())));
        }
        List<Due> due = node.polls ? List.of() : due(node);
        node.polls = !due.isEmpty(); // next, whatever the replies are
        if (!due.isEmpty()) {
            return new Round(due, at, reply * (1 + due.size() / OPEN_TIMES), Fault::isSilence);
        }
        long block = block(node);
        long session = node.session;
        String[] poll = Claim.words("LOCK.SESSION", "POLL", session, "BLOCK", TimeUnit.NANOSECONDS.toMillis(block));
        boolean isNew = node.isNew;
        return session(poll, block, fault -> isNew || !fault.is("NOSESSION"), (reply, sent) -> {
            if (reply.fault().is("NOSESSION")) {
                sessionEnded(node);
            } else if (!reply.isFault() && node.session == session) {
                polled(node, sent, reply.value());
            }
        });
    }

    private Round session(String[] command, long block, Predicate<Fault> breaks, ObjLongConsumer<Reply> apply) {
        return new Round(List.of(new Due(command, apply)), at, reply + block, breaks);
    }

    /** Closes a session. */
    public static String[] closeCommand(long session) {
        return Claim.words("LOCK.SESSION", "CLOSE", session);
    }

    /** Leaves a session with a grant whose release was refused, so that the grant is not renewed forever. */
    void leaveSession(Node node) {
        if (node.leaving && node.session != 0) {
            node.left.put(node.session, at);
            sessionEnded(node);
        }
        node.leaving = false;
    }

    /** What is due before a POLL of the session, in the order of sending. */
    List<Due> due(Node node) {
        long session = node.session;
        List<Due> due = new ArrayList<>();
        if (node.isOutside) {
            node.isOutside = false;
            for (Claim grant : node.grants) {
                if (grant.session != session && grant.doubt == null) {
                    due.add(new Due(grant.renewCommand(session),
                            (reply, sent) -> moved(grant, node, session, sent, reply)));
                }
            }
            queueAgain(node, due);
        }
        unfinished.forEach((of, how) -> {
            if (how.node() == node) {
                due.add(new Due(how.words(), (reply, sent) -> {
                    finished(of.name(), of.token(), reply);
                    if (reply.fault().redirects()) { // another node has that key now
                        unfinished.remove(of);
                        resend(node, how.words());
                    }
                }));
            }
        });
        if (node.excess >= 0 && at > node.excess + lease) {
            Set<Name> called = new HashSet<>(calls.values());
            due.add(new Due(Claim.words("LOCK.SESSION", "GRANTS", session),
                    (reply, sent) -> listed(node, called, reply)));
        }
        node.left.forEach((old, since) -> {
            if (at > since + 2 * reply && !node.hasGrantIn(old)) {
                due.add(new Due(closeCommand(old), (reply, sent) -> {
                    if (!reply.fault().isPassing() || reply.fault().is("NOSESSION")) {
                        node.left.remove(old);
                    }
                }));
            }
        });
        return due;
    }

    /** Asks for the places that went with an earlier session, in the order of their asking. */
    private void queueAgain(Node node, List<Due> due) {
        long session = node.session;
        claims.values().stream()
                .filter(it -> it.node == node && it.phase == Claim.Phase.IN_LINE && it.session != session && it.end > at)
                .forEach(wait -> {
                    long call = beginCall(wait.name);
                    wait.open++;
                    due.add(new Due(wait.acquireCommand(session, at), (reply, sent) -> {
                        answered(wait, node, session, sent, reply);
                        node.isOutside |= reply.isFault();
                        endCall(call);
                    }));
                });
    }

    /** Applies the reply to the RENEW of a grant that was not in this session. */
    private void moved(Claim grant, Node node, long session, long sent, Reply reply) {
        if (!node.grants.contains(grant)) {
            return;
        }
        if (isGrant(reply)) {
            grant.session = session;
            if (sent > grant.from) { // no other RENEW was under way
                grant.sure = Math.max(grant.sure, sent + leaseOf(reply));
                grant.from = at;
            }
        } else if (reply.fault().isGone()) {
            lose(grant, reply.fault());
        } else if (isCluster && reply.fault().redirects()) {
            doubt(grant, "moved");
        } else {
            node.isOutside = true;
        }
    }

    /** Releases the grants of the session that nobody knows, and nobody called about meanwhile. */
    private void listed(Node node, Set<Name> called, Reply reply) {
        node.excess = -1;
        called.addAll(calls.values());
        for (Object row : Reply.list(reply.value())) {
            Map<String, @Nullable Object> parts = Reply.fields(row);
            Name name = new Name(String.valueOf(parts.get("key")), String.valueOf(parts.get("owner")));
            long token = Reply.number(parts.get("token"));
            if (!called.contains(name) && !claims.containsKey(name) && !unfinished.containsKey(new Release(name, token))) {
                finishLater(node, name, token);
            }
        }
    }

    /** How long a POLL that is sent now may block. */
    long block(Node node) {
        return isUnsure(node) ? TimeUnit.MILLISECONDS.toNanos(100) : lease / 3;
    }

    /** Whether the time of a grant has passed, so that the next reply decides. */
    public boolean isUnsure(Node node) {
        if (at >= node.soonest) {
            node.soonest = node.grants.stream().mapToLong(this::sure).min().orElse(Claim.FAR);
        }
        return at >= node.soonest;
    }

    /** Applies the reply to a POLL that was sent at this time. */
    void polled(Node node, long sent, @Nullable Object value) {
        Map<String, @Nullable Object> parts = Reply.fields(value);
        long ms = Reply.number(parts.get("sure-ms"));
        long till = sent + (ms >= 0 ? TimeUnit.MILLISECONDS.toNanos(ms) : lease);
        for (Object event : Reply.list(parts.get("events"))) {
            event(node, Reply.list(event), till);
        }
        node.sures.removeIf(sure -> sure.till() <= till);
        node.sures.add(new Node.Sure(sent, till));
        if (Reply.number(parts.get("grants")) <= node.grants.size() + unfinished.size()) {
            node.excess = -1;
        } else if (node.excess < 0) {
            node.excess = sent;
        }
        node.fault = Fault.NONE;
        node.isNew = false;
        node.tries.clear();
        silent(node, sent);
    }

    private void event(Node node, List<@Nullable Object> event, long till) {
        if (event.size() < 5 || Reply.number(event.get(0)) <= node.seen) {
            return; // applied before
        }
        node.seen = Reply.number(event.get(0));
        String kind = String.valueOf(event.get(1));
        Name name = new Name(String.valueOf(event.get(2)), String.valueOf(event.get(3)));
        long token = Reply.number(event.get(4));
        Claim claim = claims.get(name);
        Release of = new Release(name, token);
        boolean leaves = node.leaves.contains(of);
        switch (kind) {
            case "granted" -> {
                if (!leaves && !granted(node, name, token, node.session, till) && !calls.containsValue(name)) {
                    finishLater(node, name, token); // it was given up
                }
            }
            case "ended" -> {
                if (claim != null && claim.isWaiting()) {
                    ended(claim, String.valueOf(event.get(4)));
                }
            }
            case "lost", "taken" -> {
                Object detail = event.size() > 5 ? event.get(5) : null;
                if (leaves && kind.equals("taken") && detail instanceof Long by && by == 0) {
                    node.leaves.remove(of); // by this client
                } else {
                    gone(node, claim, kind, of, detail);
                }
            }
            default -> { }
        }
    }

    private void gone(Node node, @Nullable Claim claim, String kind, Release of, @Nullable Object detail) {
        boolean isKnown = claim != null && claim.phase == Claim.Phase.HELD && claim.token == of.token();
        String reason = kind.equals("lost") && detail != null ? detail.toString() : kind;
        rememberLoss(of, reason);
        unfinished.remove(of); // nothing is left to release
        if (!isKnown || claim.doubt != null || claim.node != node) {
            return;
        }
        if (isCluster && reason.equals("deleted")) {
            doubt(claim, reason);
        } else {
            lose(claim, reason);
        }
    }

    /**
     * Applies a try to connect or to poll that began at this time and failed. One that failed at once counts only after
     * a reply timeout of tries.
     */
    public void failed(Node node, long began, Fault fault) {
        node.polls = false;
        node.tries.add(began);
        node.fault = fault;
        while (!node.tries.isEmpty() && at >= node.tries.peek() + reply) {
            silent(node, node.tries.remove());
        }
        if (!fault.isPassing()) {
            wakeWaits(node);
        }
    }

    /** Ends the grants that a POLL or connect which began then has not made sure again. */
    private void silent(Node node, long since) {
        if (since <= node.soonest) {
            return;
        }
        node.soonest = Claim.FAR;
        for (Claim grant : List.copyOf(node.grants)) {
            long till = sure(grant);
            if (till >= since || grant.doubt != null) {
                node.soonest = Math.min(node.soonest, till);
            } else {
                finishLater(node, grant.name, grant.token);
                lose(grant, "silence");
            }
        }
    }

    /** Ends all waits and grants. Returns the grants. */
    public List<Claim> close() {
        isClosed = true;
        List<Claim> grants = new ArrayList<>();
        for (Claim claim : List.copyOf(claims.values())) {
            if (claim.phase != Claim.Phase.HELD) {
                endWait(claim, Failure.CLOSED);
                continue;
            }
            forget(claim);
            claim.phase = Claim.Phase.RELEASED;
            wake(claim);
            grants.add(claim);
        }
        return grants;
    }

    /** The grants in the session of a node, and the places in line there. */
    public List<Claim> on(Node node) {
        return claims.values().stream().filter(it -> it.node == node)
                .filter(it -> it.phase == Claim.Phase.IN_LINE || node.grants.contains(it)).toList();
    }

    /** Has a claim asked for at another node of the cluster, which has its key now. */
    public void relocate(Claim claim) {
        if (claim.phase == Claim.Phase.IN_LINE) {
            set(claim, Claim.Phase.ASKED);
        } else if (claim.phase == Claim.Phase.HELD && claim.session != 0 && claim.doubt == null) {
            doubt(claim, "moved");
        }
    }
}
