package io.github.redislock.state;

import static io.github.redislock.state.Rig.MS;
import static io.github.redislock.state.Rig.NO_REPLY;
import static io.github.redislock.state.Rig.ended;
import static io.github.redislock.state.Rig.granted;
import static io.github.redislock.state.Rig.grants;
import static io.github.redislock.state.Rig.fails;
import static io.github.redislock.state.Rig.lost;
import static io.github.redislock.state.Rig.number;
import static io.github.redislock.state.Rig.says;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

/** The rules of waits. † marks what the model of the protocol cannot do without. */
class WaitsTest {
    private final Rig rig = new Rig();

    /** † Neither during a call nor while a release is unfinished. */
    @Test
    void anOwnerIsNotUsedAgainWhileACallInItsNameIsUnanswered() {
        assertFalse(rig.state.isInUse("o"));
        Call call = rig.begin("other");
        assertTrue(rig.state.isInUse("o"));
        rig.end(call, 100_000, number(0));
        assertFalse(rig.state.isInUse("o"));
        rig.state.finishLater(rig.node, new Claim.Name("other", "o"), 0);
        assertTrue(rig.state.isInUse("o"));
    }

    /** † After a call without a reply, a reported loss, and giving up a wait. What it holds keeps its owner. */
    @Test
    void aTaskContinuesWithAFreshOwner() {
        Map<String, BiConsumer<Rig, Claim>> endings = Map.of(
                "no reply", (rig, claim) -> rig.end(rig.state.acquire(claim), 100_000, NO_REPLY),
                "given up", (rig, claim) -> {
                    rig.answered(claim, number(0)).end(rig.state.giveUp(claim), 100_000, number(0));
                },
                "lost", (rig, claim) -> rig.answered(claim, grants(50, 1, 10_000)).poll(9000, 0, lost("k", 50)),
                "released", (rig, claim) -> {
                    rig.answered(claim, grants(50, 1, 10_000)).release(claim, number(0), true);
                },
                "checked", (rig, claim) -> {
                    rig.answered(claim, grants(50, 1, 10_000));
                    fails(Kind.UNAVAILABLE, rig.end(claim.check(), 100_000, NO_REPLY));
                });
        endings.forEach((name, happens) -> {
            Rig rig = new Rig();
            Claim claim = rig.asked("k");
            AtomicBoolean isRenounced = new AtomicBoolean();
            claim.renounceOwner = () -> isRenounced.set(true);
            happens.accept(rig, claim);
            assertTrue(isRenounced.get(), name);
            assertEquals("o", claim.name.owner());
        });
    }

    /** In a new session grants are moved first, then the waits ask again, then come unfinished releases. */
    @Test
    void waitsAreQueuedAgainInTheirOrder() {
        List<Claim> waits = List.of(rig.inLine("c"), rig.inLine("a"), rig.inLine("b"));
        rig.held("k");
        rig.state.finishLater(rig.node, new Claim.Name("z", "o"), 0);
        rig.sessionEnded();
        rig.opened(8);
        List<String> sent = rig.at(101_000).apply(says("NOPERM x"), number(1), NO_REPLY, says("LOADING x"), NO_REPLY);
        List<String> begins = List.of("LOCK.RENEW k o TOKEN 50 SESSION 8", "LOCK.ACQUIRE c", "LOCK.ACQUIRE a",
                "LOCK.ACQUIRE b", "LOCK.RELEASE z");
        for (int i = 0; i < 5; i++) {
            assertTrue(sent.get(i).startsWith(begins.get(i)), sent.get(i));
        }
        assertEquals(List.of(8L, 7L), List.of(waits.get(0).session, waits.get(1).session));
        assertTrue(rig.state.calls.isEmpty());
        sent = rig.due();
        assertEquals(4, sent.size());
        assertTrue(sent.get(1).startsWith("LOCK.ACQUIRE a"));
    }

    @Test
    void aPlaceCountsInTheCurrentSessionOnly() {
        Claim wait = rig.asked("k");
        rig.state.answered(wait, 6, rig.answer(rig.state.at, number(3)));
        rig.step(wait, "send");
        rig.answered(wait, says("NOSESSION x"));
        rig.step(wait, "rest");
        rig.sessionEnded();
        rig.opened(8);
        rig.step(wait, "send");
    }

    /** A grant that is unsure is handed to the user after the next POLL. */
    @Test
    void aGrantThatIsUnsureIsPolledOnceMore() {
        Claim wait = rig.inLine("k");
        rig.at(101_000).poll(0, 1, granted("k", 50));
        rig.step(wait, "rest");
        rig.at(102_000).poll(5000, 1);
        rig.step(wait, "done");
    }

    /** An event whose number was seen is skipped; in a new session numbers start at 1. */
    @Test
    void eventsAreAppliedOnce() {
        Claim grant = rig.held("k");
        rig.node.seen = 3;
        Reply reply = Reply.of(List.of("sure-ms", 0L, "grants", 1L, "events",
                List.of(List.of(3L, "lost", "k", "o", 50L, "deleted"))));
        rig.node.polled(7, rig.answer(rig.state.at, reply));
        rig.has(grant, Claim.Phase.HELD, null);
        rig.sessionEnded();
        rig.opened(8);
        rig.node.polled(8, rig.answer(rig.state.at, reply));
        rig.has(grant, Claim.Phase.ENDED, "deleted");
    }

    /** A place is cancelled unless the lock is held; a late grant is released unless a call in its name is under way. */
    @Test
    void aWaitThatIsOver() {
        Claim wait = rig.inLine("k");
        rig.end(rig.state.giveUp(wait), 100_000, says("NOTHELD x"));
        rig.isDue();
        rig.answered(wait, number(0)).isDue("LOCK.RELEASE k o ALL");
        Claim grant = rig.held("held");
        rig.answered(grant, number(0));
        rig.begin("called");
        rig.poll(5000, 1, granted("called", 60), granted("held", 50), granted("gone", 61), lost("gone", 61));
        rig.isDue("LOCK.RELEASE k o ALL");
        rig.has(grant, Claim.Phase.HELD, null);
    }

    /** The higher token counts until the user has the grant; after that it is released. */
    @Test
    void theHigherOfTwoTokens() {
        Claim wait = rig.inLine("k");
        rig.at(101_000).poll(9000, 1, granted("k", 50));
        rig.answered(wait, grants(51, 1, 10_000)).step(wait, "done");
        rig.poll(9000, 2, granted("k", 50), granted("k", 52));
        assertEquals(51, wait.token);
        rig.isDue("LOCK.RELEASE k o ALL TOKEN 52");
    }

    @Test
    void aWaitThatEnded() {
        Map<String, String> all = Map.of("timeout", "BUSY", "cancelled", "BUSY", "MOVED 1 x", "send", "NOPERM x", "REFUSED",
                "WRONGTYPE x", "MISUSE", "DEADLOCK x", "DEADLOCK", "NOTALONE x", "NOT_ALONE");
        all.forEach((why, wanted) -> {
            Rig rig = new Rig();
            Claim wait = rig.inLine("k");
            rig.poll(-1, 0, ended("k", why));
            rig.step(wait, wanted);
        });
    }

    @Test
    void theEndOfAPlaceMayComeBeforeItsReply() {
        Claim wait = rig.asked("k");
        long sent = rig.state.at;
        rig.poll(-1, 0, ended("k", "MOVED 1 x"));
        rig.state.answered(wait, 7, rig.answer(sent, number(0)));
        rig.at(103_000).step(wait, "send");
        rig.answered(wait, number(0)).step(wait, "rest");
    }

    /** Out of time: busy in line in the current session, a reply after the wait; unavailable elsewhere. */
    @Test
    void busyOrUnavailable() {
        Claim wait = rig.inLine("k");
        Claim asked = rig.asked("asked");
        rig.at(105_500).step(wait, "rest");
        rig.at(106_000).step(wait, "BUSY");
        rig.answered(asked, says("LOADING x")).step(asked, "server: LOADING x");
        rig.sessionEnded();
        rig.opened(8);
        rig.step(wait, "UNAVAILABLE");
        rig.sessionEnded();
        rig.at(101_000).node.failed(101_000 * MS, Fault.reply("MAXSESSIONS x"));
        rig.step(asked, "REFUSED");
    }

    @Test
    void timeLimits() {
        List<List<Object>> all = List.of(List.of(0L, "HOLDS 1 SESSION 7", 500L, 101_000L, 101_000L),
                List.of(300L, "QUEUE 1", 500L, 101_000L, 101_300L), List.of(30_000L, "QUEUE 29500", 1000L, 130_000L, 131_000L));
        for (List<Object> one : all) {
            Claim claim = rig.claim("k", (Long) one.get(0));
            String command = String.join(" ", rig.at(100_500).state.acquire(claim).command());
            rig.at(100_000);
            assertTrue(command.endsWith((String) one.get(1)), command);
            assertEquals(one.subList(2, 5), List.of(claim.limit / MS, claim.askedEnd / MS, claim.last / MS));
        }
        Claim forever = rig.claim("k", -1);
        assertTrue(String.join(" ", forever.acquireCommand(7)).endsWith("QUEUE 0"));
        assertTrue(forever.last > 1L << 60);
    }

    /** The cancel is an unfinished release until it is answered. A wait without a call needs none. */
    @Test
    void givingUpCancelsWhatTheServerMayKnow() {
        Claim unsent = rig.claim("u", 5000);
        rig.state.ask(unsent);
        assertNull(rig.state.giveUp(unsent));
        assertTrue(rig.state.claims.isEmpty() && rig.state.unfinished.isEmpty());
        Claim refused = rig.asked("refused");
        rig.answered(refused, Reply.of(Fault.none(false, "refused")));
        assertNull(rig.state.giveUp(refused));
        Claim wait = rig.asked("k");
        rig.answered(wait, NO_REPLY);
        Call cancel = rig.state.giveUp(wait);
        assertEquals("LOCK.RELEASE k o ALL", String.join(" ", cancel.command()));
        rig.end(cancel, 100_000, says("LOADING x"));
        rig.isDue("LOCK.RELEASE k o ALL");
        rig.end(cancel, 100_000, says("NOTHELD x"));
        rig.isDue();
    }

    /** A wait without a place is asked for where the key is now. */
    @Test
    void aWaitThatMovedToAnotherNode() {
        Node other = new Node(rig.state, "other");
        other.opened(rig.answer(rig.state.at, number(9)));
        Claim wait = rig.inLine("k");
        wait.relocate(rig.node);
        wait.node = other;
        rig.step(wait, "send");
        rig.answered(wait, number(0)).step(wait, "send"); // late, of the old node
        rig.state.answered(wait, 9, new Call.Answer(other, rig.state.at, number(0), false));
        rig.step(wait, "rest");
    }
}
