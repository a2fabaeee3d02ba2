package io.github.redislock.state;

import static io.github.redislock.state.Rig.NO_REPLY;
import static io.github.redislock.state.Rig.granted;
import static io.github.redislock.state.Rig.grants;
import static io.github.redislock.state.Rig.fails;
import static io.github.redislock.state.Rig.lost;
import static io.github.redislock.state.Rig.number;
import static io.github.redislock.state.Rig.says;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** The rules of releases. † marks what the model of the protocol cannot do without. */
class ReleasesTest {
    private final Rig rig = new Rig();

    /** † A cancel, a stray, a late grant and a silent grant are released without the session. */
    @Test
    void onlyTheUsersReleaseNamesTheSession() {
        Claim grant = rig.held("k");
        assertEquals("LOCK.RELEASE k o HOLDS 1 TOKEN 50 SESSION 7", String.join(" ", grant.releaseCommand(1)));
        rig.state.giveUp(rig.inLine("cancelled"));
        Claim late = rig.asked("late", null);
        rig.state.giveUp(late);
        rig.answered(late, grants(60, 1, 10_000)).poll(5000, 3, granted("stray", 61));
        rig.at(112_000).state.failed(rig.node, 111_000 * Rig.MS, NO_REPLY.fault());
        rig.has(grant, Claim.Phase.LOST, "silence");
        rig.isDue("LOCK.RELEASE cancelled o ALL", "LOCK.RELEASE late o ALL", "LOCK.RELEASE late o ALL TOKEN 60",
                "LOCK.RELEASE stray o ALL TOKEN 61", "LOCK.RELEASE k o ALL TOKEN 50");
    }

    /** † GRANTS is due when every reply shows too many grants for a lease. Calls under way are no excuse. */
    @Test
    void straysAreReleased() {
        rig.held("k");
        rig.inLine("waiting");
        rig.state.beginCall(new Name("called", "o"));
        rig.poll(20_000, 2);
        rig.at(109_000).isDue();
        rig.poll(20_000, 1);
        rig.poll(20_000, 2);
        rig.at(119_000).isDue();
        List<Due> due = rig.at(119_100).state.due(rig.node);
        assertEquals("LOCK.SESSION GRANTS 7", String.join(" ", due.get(0).command()));
        rig.state.beginCall(new Name("later", "o"));
        due.get(0).apply().accept(Reply.of(Stream.of("k", "waiting", "called", "later", "stray")
                .map(key -> List.of("key", key, "owner", "o", "token", 60L)).toList()), rig.state.at);
        rig.isDue("LOCK.RELEASE stray o ALL TOKEN 60");
        rig.poll(9000, 2); // the unfinished release explains the second grant
        assertTrue(rig.node.excess < 0);
    }

    /** NOTHELD is a loss. After a try without a reply it means done, unless the loss was reported. */
    @Test
    void aReleaseThatFindsNoGrant() {
        assertEquals("gone (NOTHELD)", released(false, false));
        assertNull(released(true, false));
        assertEquals("deleted", released(true, true));
        Claim grant = rig.held("k");
        grant.holds = 2;
        rig.release(grant);
        fails(Kind.LOST, () -> rig.released(grant, says("NOTHELD x"), true));
    }

    private static String released(boolean wasOpen, boolean isReported) {
        Rig rig = new Rig();
        Claim grant = rig.held("k");
        rig.state.beginCall(grant.name);
        rig.release(grant);
        if (isReported) {
            rig.poll(-1, 0, lost("k", 50));
        }
        Executable release = () -> rig.released(grant, says("NOTHELD x"), wasOpen);
        if (wasOpen && !isReported) {
            assertDoesNotThrow(release);
        } else {
            fails(Kind.LOST, release);
        }
        return grant.reason;
    }

    /** An inner hold is left to the next release, because a re-entry may come between. */
    @Test
    void theReleaseOfTheLastHoldIsRepeated() {
        Claim grant = rig.held("k");
        grant.holds = 2;
        fails(Kind.UNAVAILABLE, () -> rig.released(rig.release(grant), NO_REPLY, true));
        rig.isDue();
        fails(Kind.UNAVAILABLE, () -> rig.released(rig.release(grant), NO_REPLY, true));
        rig.isDue("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7");
        fails(Kind.MISUSE, () -> rig.state.release(grant));
    }

    /** Grants move to a new session. The old one is closed 2 s later, when no known grant is in it. */
    @Test
    void afterARefusedReleaseTheSessionIsLeft() {
        Claim refused = rig.held("k");
        Claim other = rig.held("other");
        fails(Kind.REFUSED, () -> rig.released(rig.release(refused), says("NOPERM x"), false));
        rig.at(101_000).state.leaveSession(rig.node);
        assertEquals(0, rig.node.session);
        rig.opened(8);
        assertEquals(List.of("LOCK.RENEW other o SESSION 8 TOKEN 50"), rig.at(104_000).apply(grants(50, 1, 10_000)));
        rig.sureTill(other, 114_000);
        rig.at(103_000).isDue();
        assertEquals(List.of("LOCK.SESSION CLOSE 7"), rig.at(103_100).apply(NO_REPLY));
        assertEquals(List.of("LOCK.SESSION CLOSE 7"), rig.apply(number(0)));
        rig.isDue();
    }

    @Test
    void theSessionIsLeftForALastHoldOnly() {
        Claim grant = rig.held("k");
        grant.holds = 2;
        fails(Kind.REFUSED, () -> rig.released(rig.release(grant), says("NOPERM x"), false));
        Name name = new Name("k", "o");
        rig.state.finishLater(rig.node, name, 0);
        rig.apply(says("NOPERM x"));
        rig.state.finishLater(rig.node, name, 50);
        rig.apply(says("NOTHELD x"));
        assertFalse(rig.node.leaving || !rig.state.unfinished.isEmpty());
        rig.state.finishLater(rig.node, name, 50);
        rig.apply(says("NOPERM x"));
        assertTrue(rig.node.leaving);
    }

    @Test
    void closeEndsWaitsAndGrants() {
        Claim wait = rig.inLine("k");
        Claim grant = rig.held("held");
        rig.run();
        assertEquals(List.of(grant), rig.state.close());
        assertEquals(List.of(7L), rig.node.sessions());
        assertEquals(2, rig.run().woken.size());
        rig.step(wait, "closed");
        fails(Kind.MISUSE, () -> rig.state.release(grant));
        fails(Kind.MISUSE, () -> rig.state.ask(wait));
        assertEquals("LOCK.RELEASE held o HOLDS 0 TOKEN 50 SESSION 7", String.join(" ", grant.releaseCommand(0)));
    }
}
