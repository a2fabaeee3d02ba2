package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** What is known of one server, and the rules of its session. */
public final class Node {
    private static final int OPEN_TIMES = 500; // as many replies have one reply timeout more

    /**
     * What is sent over the session's connection in one piece.
     *
     * @param calls in the order of sending
     * @param at when they are sent
     * @param limit how long their replies may take
     * @param isDue it is neither OPEN nor POLL: an error reply does not break the connection
     */
    public record Round(List<Call> calls, long at, long limit, boolean isDue) {
        /** The commands, in the order of sending. */
        public List<String[]> commands() {
            return calls.stream().map(Call::command).toList();
        }

        /** Applies the replies of the server. Returns what breaks the connection, or else {@link Fault#NONE}. */
        public Fault apply(Node from, List<Reply> replies) {
            Fault broken = Fault.NONE;
            for (int i = 0; i < calls.size(); i++) {
                Fault fault = calls.get(i).apply().apply(new Call.Answer(from, at, replies.get(i), false));
                broken = isDue && !fault.isSilence() ? broken : fault;
            }
            from.wasDue = isDue && broken == Fault.NONE;
            return broken;
        }
    }

    /** Its name in messages. */
    public final String address;
    /** 0: none. */
    public long session;
    /** No POLL of the session has been answered. */
    public boolean isNew;

    final State state;
    final Set<Claim> grants = new LinkedHashSet<>(); // that the session renews, or will
    final List<State.Release> leaves = new ArrayList<>(); // grants that leave the session, until their `taken`
    long seen; // the number of the last event that was applied
    boolean isOutside; // a grant or place may belong to an earlier session
    long excess = -1; // since when every reply shows more grants than are known; below 0: it does not
    Fault fault = Fault.NONE; // of the last try
    boolean leaving; // a release was refused
    private boolean wasDue; // a POLL is next
    private long left; // the session that was left, until it is closed
    private long since; // when

    /** A server without a session. */
    public Node(State state, String address) {
        this.state = state;
        this.address = address;
    }

    /** Those that a close leaves to be closed; 0: none. */
    public List<Long> sessions() {
        return List.of(session, left);
    }

    /** Its waits, and its grants that are held, in the order of asking. */
    public List<Claim> claims() {
        return state.claims.values().stream().filter(claim -> claim.node == this).toList();
    }

    /** Whether nothing depends on the session. */
    public boolean isIdle() {
        return claims().stream().allMatch(claim -> claim.isFixed && claim.isHandedOver)
                && state.unfinished.values().stream().noneMatch(how -> how.node() == this)
                && left == 0 && state.calls.isEmpty();
    }

    /** The next round: OPEN without a session, what is due, or a POLL, which follows what was due. */
    public Round round(String[] open) {
        leaveSession();
        if (session == 0) {
            return new Round(List.of(new Call(open, this::opened)), state.at, state.reply, false);
        }
        List<Call> due = wasDue ? List.of() : due();
        if (!due.isEmpty()) {
            return new Round(due, state.at, state.reply * (1 + due.size() / OPEN_TIMES), true);
        }
        long block = block();
        long polled = session;
        String[] poll = Claim.words("LOCK.SESSION", "POLL", polled, "BLOCK", TimeUnit.NANOSECONDS.toMillis(block));
        return new Round(List.of(new Call(poll, answer -> polled(polled, answer))), state.at, state.reply + block, false);
    }

    /** Applies the reply to OPEN, which begins a session. */
    Fault opened(Call.Answer answer) {
        if (answer.fault() == Fault.NONE) {
            session = Reply.number(answer.reply().value());
            isNew = true;
            seen = 0;
            excess = -1;
            fault = Fault.NONE;
            isOutside = true;
            wakeWaits();
        }
        return answer.fault();
    }

    private void wakeWaits() {
        claims().stream().filter(Claim::isWaiting).forEach(state::wake);
    }

    /** Forgets the session. The leases of its grants run on. */
    void sessionEnded() {
        session = 0;
        leaves.clear();
    }

    /** Closes a session. */
    public static String[] closeCommand(long session) {
        return Claim.words("LOCK.SESSION", "CLOSE", session);
    }

    /** Leaves a session with a grant whose release was refused, so that the grant is not renewed forever. */
    void leaveSession() {
        if (leaving && left == 0) {
            left = session;
            since = state.at;
            leaving = false;
            sessionEnded();
        }
    }

    /** What is due before a POLL of the session, in the order of sending. */
    List<Call> due() {
        List<Call> due = new ArrayList<>();
        if (isOutside) {
            isOutside = false;
            move(due);
        }
        state.unfinished.forEach((of, how) -> {
            if (how.node() == this) {
                due.add(new Call(how.command(), answer -> state.finished(of, answer)));
            }
        });
        if (excess >= 0 && state.at > excess + state.lease) {
            Set<Claim.Name> called = new HashSet<>(state.calls.keySet());
            due.add(new Call(Claim.words("LOCK.SESSION", "GRANTS", session), answer -> listed(called, answer)));
        }
        if (left != 0 && state.at > since + 2 * state.reply && grants.stream().noneMatch(it -> it.session == left)) {
            due.add(new Call(closeCommand(left), answer -> {
                left = answer.fault().isPassing() && !answer.fault().is("NOSESSION") ? left : 0;
                return answer.fault();
            }));
        }
        return due;
    }

    /** Moves the grants to this session, and then asks for the places that went with an earlier one, in their order. */
    private void move(List<Call> due) {
        long to = session;
        List<Claim> outside = claims().stream().filter(claim -> claim.session != to && claim.doubt == null).toList();
        outside.stream().filter(grants::contains)
                .forEach(grant -> due.add(new Call(grant.renewCommand("SESSION", to), answer -> grant.moved(to, answer))));
        outside.stream().filter(wait -> wait.phase == Claim.Phase.IN_LINE && wait.end > state.at)
                .forEach(wait -> due.add(state.acquire(wait)));
    }

    /** Releases the grants of the session that nobody knows, and nobody called about meanwhile. */
    private Fault listed(Set<Claim.Name> called, Call.Answer answer) {
        excess = -1;
        for (Object row : Reply.list(answer.reply().value())) {
            Map<String, @Nullable Object> parts = Reply.fields(row);
            Claim.Name name = new Claim.Name(String.valueOf(parts.get("key")), String.valueOf(parts.get("owner")));
            if (!state.claims.containsKey(name) && !called.contains(name) && !state.calls.containsKey(name)) {
                state.finishLater(this, name, Reply.number(parts.get("token")));
            }
        }
        return answer.fault();
    }

    /** How long a POLL that is sent now may block: briefly while a grant is unsure, so that the next reply decides. */
    long block() {
        boolean isBrief = grants.stream().anyMatch(grant -> grant.sure() <= state.at);
        return isBrief ? TimeUnit.MILLISECONDS.toNanos(100) : state.lease / 3;
    }

    /** Applies the reply to a POLL of this session. Of successive NOSESSION only the first breaks nothing. */
    Fault polled(long polled, Call.Answer answer) {
        if (answer.fault().is("NOSESSION")) {
            sessionEnded();
            return isNew ? answer.fault() : Fault.NONE;
        }
        if (answer.fault() != Fault.NONE || session != polled) {
            return answer.fault();
        }
        long sent = answer.sent();
        Map<String, @Nullable Object> parts = Reply.fields(answer.reply().value());
        long ms = Reply.number(parts.get("sure-ms"));
        long till = sent + (ms >= 0 ? TimeUnit.MILLISECONDS.toNanos(ms) : state.lease);
        for (Object event : Reply.list(parts.get("events"))) {
            event(Reply.list(event), till);
        }
        for (Claim grant : grants) {
            if (grant.session == session && sent > grant.from) { // it was known then
                grant.sure = Math.max(grant.sure, till);
            }
        }
        if (Reply.number(parts.get("grants")) <= grants.size() + state.unfinished.size()) {
            excess = -1;
        } else if (excess < 0) {
            excess = sent;
        }
        fault = Fault.NONE;
        isNew = false;
        silent(sent, 0);
        return Fault.NONE;
    }

    private void event(List<@Nullable Object> event, long till) {
        if (event.size() < 5 || Reply.number(event.get(0)) <= seen) {
            return; // applied before
        }
        seen = Reply.number(event.get(0));
        String kind = String.valueOf(event.get(1));
        Claim.Name name = new Claim.Name(String.valueOf(event.get(2)), String.valueOf(event.get(3)));
        State.Release of = new State.Release(name, Reply.number(event.get(4)));
        Claim claim = state.claims.get(name);
        Object detail = event.size() > 5 ? event.get(5) : null;
        switch (kind) {
            case "granted" -> {
                if (!leaves.contains(of) && !state.granted(this, name, of.token(), session, till)
                        && !state.calls.containsKey(name)) {
                    state.finishLater(this, name, of.token()); // it was given up
                }
            }
            case "ended" -> {
                if (claim != null) {
                    state.ended(claim, String.valueOf(event.get(4)));
                }
            }
            case "lost" -> lost(claim, of, detail == null ? kind : detail.toString());
            case "taken" -> {
                boolean isLeave = Long.valueOf(0).equals(detail) && leaves.remove(of); // by this client
                if (!isLeave) {
                    lost(claim, of, kind);
                }
            }
            default -> { }
        }
    }

    /** In a cluster, a deleted grant may have moved with its slot: a reply that names it later may be right. */
    private void lost(@Nullable Claim claim, State.Release of, String reason) {
        boolean isKnown = claim != null && claim.phase == Claim.Phase.HELD && claim.token == of.token();
        boolean isDoubtful = isKnown && state.isCluster && reason.equals("deleted");
        state.unfinished.remove(of); // nothing is left to release
        if (!isDoubtful) {
            state.rememberLoss(of, reason);
        }
        if (!isKnown || claim.doubt != null || claim.node != this) {
            return;
        }
        if (isDoubtful) {
            claim.doubt(reason);
        } else {
            claim.lose(reason);
        }
    }

    /**
     * Applies a try to connect or to poll that began at this time and failed. One that failed at once counts only after
     * a reply timeout of tries.
     */
    public void failed(long began, Fault why) {
        fault = why;
        silent(began, state.reply);
        if (why.isLasting()) {
            wakeWaits();
        }
    }

    /**
     * Ends the grants that a POLL or connect which began then has not made sure again, when tries have failed for this
     * long.
     */
    private void silent(long since, long patience) {
        for (Claim grant : List.copyOf(grants)) {
            if (grant.sure >= since || grant.doubt != null) {
                continue;
            }
            grant.tried = grant.tried > grant.sure ? grant.tried : since;
            if (state.at >= grant.tried + patience) {
                state.finishLater(this, grant.name, grant.token);
                grant.lose("silence");
            }
        }
    }
}
