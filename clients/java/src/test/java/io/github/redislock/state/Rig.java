package io.github.redislock.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * A State with one server, for the rules of docs/client-protocol.md, by plain calls. The clock starts at 100 s, the client's
 * lease is 10 s, and session 7 is open. Times are in milliseconds.
 */
final class Rig {
    static final Reply NO_REPLY = Reply.of(Fault.none(true, "timeout", null));
    static final long MS = 1_000_000;

    final State state;
    final Node node = new Node("server");

    Rig() {
        this(false);
    }

    Rig(boolean isCluster) {
        state = new State(10_000 * MS, 1000 * MS, isCluster);
        at(100_000);
        state.opened(node, 7);
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
        return new Claim(new Name(key, "o"), List.of(), leaseMs * MS, wait, 1000 * MS, state.at, node);
    }

    /** A wait whose ACQUIRE is under way since now. */
    Claim asked(String key, OwnerOfTask task) {
        Claim claim = claim(key, 5000);
        claim.task = task;
        return asked(claim);
    }

    Claim asked(Claim claim) {
        fine(state.ask(claim));
        assertTrue(state.next(claim).sends());
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
        Waits.Step step = state.next(claim);
        String is = step.failure() != null ? step.failure().kind() + " " + step.failure().text()
                : step.isDone() ? "done" : step.sends() ? "send" : "rest";
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
            due.get(i).apply().reply(state.at, replies[i]);
        }
        return due.stream().map(one -> String.join(" ", one.command())).toList();
    }

    void sureTill(Claim claim, long ms) {
        assertEquals(ms, Math.round((double) state.sure(claim) / MS));
    }

    void has(Claim claim, Claim.Phase phase, String reason) {
        assertEquals(phase + " " + reason, claim.phase + " " + claim.reason);
    }

    Claim release(Claim claim) {
        fine(state.release(claim).failure());
        return claim;
    }

    void renew(Claim claim, long leaseMs, boolean leaves) {
        fine(state.renew(claim, leaseMs * MS, leaves).failure());
    }

    Failure released(Claim claim, Reply reply, boolean wasOpen) {
        return state.released(claim, new Answer(state.at, reply, wasOpen));
    }

    Failure confirmed(Claim claim, long sentMs, Reply reply) {
        return state.confirmed(claim, new Answer(sentMs * MS, reply, false));
    }

    static void fine(Failure failure) {
        assertNull(failure);
    }

    static void is(Kind kind, Failure failure) {
        assertNotNull(failure);
        assertEquals(kind, failure.kind(), failure.text());
    }
}
