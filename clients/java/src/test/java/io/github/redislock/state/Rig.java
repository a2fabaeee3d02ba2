package io.github.redislock.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.function.Executable;

/**
 * A State with one server, for the rules of docs/client-protocol.md, by plain calls. The clock starts at 100 s, the client's
 * lease is 10 s, and session 7 is open. Times are in milliseconds.
 */
final class Rig {
    static final Reply NO_REPLY = Reply.of(Fault.none(true, "timeout"));
    static final long MS = 1_000_000;

    final List<Claim> woken = new ArrayList<>();
    final State state;
    final Node node = new Node("server");
    private boolean isLeaving; // by the last renewal

    Rig() {
        this(false);
    }

    Rig(boolean isCluster) {
        state = new State(10_000 * MS, 1000 * MS, isCluster);
        at(100_000);
        state.opened(node, 7);
    }

    /** Tells the claims what has changed since the last time. */
    Rig run() {
        woken.clear();
        state.takeNews().forEach(Runnable::run);
        return this;
    }

    static Reply says(String text) {
        return Reply.of(Fault.reply(text));
    }

    static Reply number(long number) {
        return Reply.of(number);
    }

    static Reply grants(long token, long holds, long leaseMs) {
        return Reply.of(List.of(token, "o", holds, leaseMs));
    }

    Rig at(long ms) {
        state.at = ms * MS;
        return this;
    }

    Claim claim(String key, long waitMs) {
        return claim(key, waitMs, 10_000);
    }

    Claim claim(String key, long waitMs, long leaseMs) {
        long wait = waitMs < 0 ? -1 : waitMs * MS;
        Claim claim = new Claim(new Name(key, "o"), List.of(), leaseMs * MS, wait, 1000 * MS, state.at, node);
        claim.wake = () -> woken.add(claim);
        return claim;
    }

    /** A wait whose ACQUIRE is under way since now. */
    Claim asked(String key, OwnerOfTask task) {
        Claim claim = claim(key, 5000);
        claim.task = task;
        return asked(claim);
    }

    Claim asked(Claim claim) {
        state.ask(claim);
        state.endCall(state.next(claim).call());
        return claim;
    }

    Rig answered(Claim claim, Reply reply) {
        state.answered(claim, node, 7, state.at, reply);
        return this;
    }

    Claim inLine(String key) {
        Claim claim = asked(key, null);
        answered(claim, number(0));
        return claim;
    }

    /** A grant with the token 50 that the user has. It is sure for 10 s. */
    Claim held(String key) {
        Claim claim = asked(key, null);
        answered(claim, grants(50, 1, 10_000));
        step(claim, "done");
        return claim;
    }

    void step(Claim claim, String wanted) {
        String is;
        try {
            Waits.Step step = state.next(claim);
            is = step == null ? "done" : step.words() != null ? "send" : "rest";
            state.endCall(step == null ? 0 : step.call());
        } catch (Failure e) {
            is = e.fault.kind() + " " + e.fault.text();
        }
        assertTrue(is.contains(wanted), is);
    }

    void sessionEnded() {
        state.sessionEnded(node);
    }

    void opened(long session) {
        state.opened(node, session);
    }

    /** A POLL that is under way. */
    interface Poll {
        void reply(long sureMs, long grants, List<?>... events);
    }

    Poll begin() {
        long sent = state.at + 1;
        state.at += 2; // what is known before is earlier, what comes is later
        return (sureMs, grants, events) -> {
            List<Object> all = new ArrayList<>();
            for (List<?> event : events) {
                all.add(Stream.concat(Stream.of(node.seen + all.size() + 1), event.stream()).toList());
            }
            state.polled(node, sent, List.of("sure-ms", sureMs, "grants", grants, "events", all));
        };
    }

    void poll(long sureMs, long grants, List<?>... events) {
        begin().reply(sureMs, grants, events);
    }

    static List<?> granted(String key, long token) {
        return List.of("granted", key, "o", token, 1L, 10_000L, 1L);
    }

    static List<?> lost(String key, long token) {
        return List.of("lost", key, "o", token, "deleted");
    }

    static List<?> taken(String key, long by) {
        return List.of("taken", key, "o", 50L, by);
    }

    static List<?> ended(String key, String why) {
        return List.of("ended", key, "o", why);
    }

    List<String> due() {
        return state.due(node).stream().map(due -> String.join(" ", due.command())).toList();
    }

    void isDue(String... wanted) {
        assertEquals(Stream.of(wanted).sorted().toList(), due().stream().sorted().toList());
    }

    /** Sends what is due, and gives it these replies. */
    List<String> apply(Reply... replies) {
        List<Due> due = state.due(node);
        for (int i = 0; i < due.size(); i++) {
            due.get(i).apply().accept(replies[i], state.at);
        }
        return due.stream().map(one -> String.join(" ", one.command())).toList();
    }

    /** Plays a round of one command. Returns what breaks it. */
    Fault round(String command, Reply reply) {
        Round round = state.round(node, new String[] {"LOCK.SESSION", "OPEN"});
        assertEquals(List.of(command), round.commands().stream().map(words -> String.join(" ", words)).toList());
        return round.apply(List.of(reply));
    }

    void sureTill(Claim claim, long ms) {
        assertEquals(ms, Math.round((double) state.sure(claim) / MS));
    }

    void has(Claim claim, Claim.Phase phase, String reason) {
        assertEquals(phase + " " + reason, claim.phase + " " + claim.reason);
    }

    Claim release(Claim claim) {
        state.release(claim);
        return claim;
    }

    void renew(Claim claim, long leaseMs, boolean leaves) {
        state.renew(claim, leaseMs * MS, leaves);
        isLeaving = leaves;
    }

    void released(Claim claim, Reply reply, boolean wasOpen) {
        state.released(claim, new Answer(state.at, reply, wasOpen));
    }

    void renewed(Claim claim, long sentMs, Reply reply) {
        state.renewed(claim, new Answer(sentMs * MS, reply, false), isLeaving);
    }

    void confirmed(Claim claim, long sentMs, Reply reply) {
        state.confirmed(claim, new Answer(sentMs * MS, reply, false));
    }

    static void fails(Kind kind, Executable call) {
        Failure failure = assertThrows(Failure.class, call);
        assertEquals(kind, failure.fault.kind(), failure.fault.text());
    }
}
