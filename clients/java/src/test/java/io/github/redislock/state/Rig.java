package io.github.redislock.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
    static final Reply NO_REPLY = Reply.of(Fault.none(true, "timeout"));
    static final long MS = 1_000_000;

    final List<Claim> woken = new ArrayList<>();
    final State state;
    final Node node;

    Rig() {
        this(false);
    }

    Rig(boolean isCluster) {
        state = new State(10_000 * MS, 1000 * MS, isCluster);
        node = new Node(state, "server");
        at(100_000);
        opened(7);
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
        Claim claim = new Claim(new Claim.Name(key, "o"), List.of(), leaseMs * MS, wait, node);
        claim.wake = () -> woken.add(claim);
        return claim;
    }

    /** A wait whose ACQUIRE is under way since now. */
    Claim asked(String key) {
        return asked(claim(key, 5000));
    }

    Claim asked(Claim claim) {
        state.ask(claim);
        state.next(claim);
        state.calls.remove(claim.name);
        return claim;
    }

    Rig answered(Claim claim, Reply reply) {
        state.answered(claim, 7, answer(state.at, reply));
        return this;
    }

    Call.Answer answer(long sent, Reply reply) {
        return new Call.Answer(node, sent, reply, false);
    }

    /** Registers a call in the name of an owner. */
    Call begin(String key) {
        return state.call(claim(key, 0), new String[0], answer -> Fault.NONE);
    }

    /** Applies the answer to a call that was sent at this time. */
    Fault end(Call call, long sentMs, Reply reply) {
        return call.apply().apply(answer(sentMs * MS, reply));
    }

    Claim inLine(String key) {
        Claim claim = asked(key);
        answered(claim, number(0));
        return claim;
    }

    /** A grant with the token 50 that the user has. It is sure for 10 s. */
    Claim held(String key) {
        Claim claim = asked(key);
        answered(claim, grants(50, 1, 10_000));
        step(claim, "done");
        return claim;
    }

    void step(Claim claim, String wanted) {
        State.Step step = state.next(claim);
        Fault end = step.end();
        if (step.call() != null) {
            state.calls.remove(claim.name);
        }
        String is = end != null && end != Fault.NONE ? end.kind() + " " + end.text()
                : end != null ? "done" : step.call() != null ? "send" : "rest";
        assertTrue(is.contains(wanted), is);
    }

    void sessionEnded() {
        node.sessionEnded();
    }

    void opened(long session) {
        node.opened(answer(state.at, number(session)));
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
            node.polled(node.session, answer(sent, Reply.of(List.of("sure-ms", sureMs, "grants", grants, "events", all))));
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
        return node.due().stream().map(due -> String.join(" ", due.command())).toList();
    }

    void isDue(String... wanted) {
        assertEquals(Stream.of(wanted).sorted().toList(), due().stream().sorted().toList());
    }

    /** Sends what is due, and gives it these replies. */
    List<String> apply(Reply... replies) {
        List<Call> due = node.due();
        for (int i = 0; i < due.size(); i++) {
            due.get(i).apply().apply(answer(state.at, replies[i]));
        }
        return due.stream().map(one -> String.join(" ", one.command())).toList();
    }

    /** Plays a round of one command. Returns what breaks it. */
    Fault round(String command, Reply reply) {
        Node.Round round = node.round(new String[] {"LOCK.SESSION", "OPEN"});
        assertEquals(List.of(command), round.commands().stream().map(words -> String.join(" ", words)).toList());
        return round.apply(node, List.of(reply));
    }

    void sureTill(Claim claim, long ms) {
        assertEquals(ms, Math.round((double) claim.sure() / MS));
    }

    void has(Claim claim, Claim.Phase phase, String reason) {
        assertEquals(phase + " " + reason, claim.phase + " " + (phase == Claim.Phase.ENDED ? claim.fault.text() : null));
    }

    /** A release that is answered so. */
    Fault release(Claim claim, Reply reply, boolean wasOpen) {
        return claim.release().apply().apply(new Call.Answer(node, state.at, reply, wasOpen));
    }

    static void fails(Kind kind, Fault fault) {
        assertEquals(kind, fault.kind(), fault.text());
    }
}
