package io.github.redislock.state;

import static io.github.redislock.state.Rig.NO_REPLY;
import static io.github.redislock.state.Rig.granted;
import static io.github.redislock.state.Rig.grants;
import static io.github.redislock.state.Rig.fails;
import static io.github.redislock.state.Rig.lost;
import static io.github.redislock.state.Rig.number;
import static io.github.redislock.state.Rig.says;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The rules of releases. † marks what the model of the protocol cannot do without. */
class ReleasesTest {
    private final Rig rig = new Rig();

    /** † A cancel, a stray, a late grant and a silent grant are released without the session. */
    @Test
    void onlyTheUsersReleaseNamesTheSession() {
        Claim grant = rig.held("k");
        assertEquals("LOCK.RELEASE k o HOLDS 1 TOKEN 50 SESSION 7", String.join(" ", grant.releaseCommand(1)));
        rig.state.giveUp(rig.inLine("cancelled"));
        Claim late = rig.asked("late");
        rig.answered(late, NO_REPLY);
        rig.state.giveUp(late);
        rig.answered(late, grants(60, 1, 10_000)).poll(5000, 3, granted("stray", 61));
        rig.at(112_000).node.failed(111_000 * Rig.MS, NO_REPLY.fault());
        rig.has(grant, Claim.Phase.ENDED, "silence");
        rig.isDue("LOCK.RELEASE cancelled o ALL", "LOCK.RELEASE late o ALL", "LOCK.RELEASE late o ALL TOKEN 60",
                "LOCK.RELEASE stray o ALL TOKEN 61", "LOCK.RELEASE k o ALL TOKEN 50");
    }

    /** † GRANTS is due when every reply shows too many grants for a lease. Calls under way are no excuse. */
    @Test
    void straysAreReleased() {
        rig.held("k");
        rig.inLine("waiting");
        rig.begin("called");
        rig.poll(20_000, 2);
        rig.at(109_000).isDue();
        rig.poll(20_000, 1);
        rig.poll(20_000, 2);
        rig.at(119_000).isDue();
        List<Call> due = rig.at(119_100).node.due();
        assertEquals("LOCK.SESSION GRANTS 7", String.join(" ", due.get(0).command()));
        rig.begin("later");
        rig.end(due.get(0), 119_100, Reply.of(Stream.of("k", "waiting", "called", "later", "stray")
                .map(key -> List.of("key", key, "owner", "o", "token", 60L)).toList()));
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
        fails(Kind.LOST, rig.release(grant, says("NOTHELD x"), true));
    }

    private static String released(boolean wasOpen, boolean isReported) {
        Rig rig = new Rig();
        Claim grant = rig.held("k");
        Call release = grant.release();
        if (isReported) {
            rig.poll(-1, 0, lost("k", 50));
        }
        Fault fault = release.apply().apply(new Call.Answer(rig.node, rig.state.at, says("NOTHELD x"), wasOpen));
        assertSame(wasOpen && !isReported ? null : Kind.LOST, fault.kind());
        return fault == Fault.NONE ? null : fault.text();
    }

    /** An inner hold is left to the next release, because a re-entry may come between. */
    @Test
    void theReleaseOfTheLastHoldIsRepeated() {
        Claim grant = rig.held("k");
        grant.holds = 2;
        fails(Kind.UNAVAILABLE, rig.release(grant, NO_REPLY, true));
        rig.isDue();
        fails(Kind.UNAVAILABLE, rig.release(grant, NO_REPLY, true));
        rig.isDue("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7");
        assertNull(grant.release());
    }

    /** Grants move to a new session. The old one is closed 2 s later, when no known grant is in it. */
    @Test
    void afterARefusedReleaseTheSessionIsLeft() {
        Claim refused = rig.held("k");
        Claim other = rig.held("other");
        fails(Kind.REFUSED, rig.release(refused, says("NOPERM x"), false));
        rig.at(101_000).node.leaveSession();
        assertEquals(0, rig.node.session);
        rig.opened(8);
        assertEquals(List.of("LOCK.RENEW other o TOKEN 50 SESSION 8"), rig.at(104_000).apply(grants(50, 1, 10_000)));
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
        fails(Kind.REFUSED, rig.release(grant, says("NOPERM x"), false));
        Claim.Name name = new Claim.Name("k", "o");
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
        assertEquals(List.of(7L, 0L), rig.node.sessions());
        assertEquals(2, rig.run().woken.size());
        rig.step(wait, "closed");
        assertNull(grant.release());
        fails(Kind.MISUSE, grant.fault);
        Claim late = rig.claim("late", 0);
        rig.state.ask(late);
        rig.step(late, "closed");
        assertEquals("LOCK.RELEASE held o HOLDS 0 TOKEN 50 SESSION 7", String.join(" ", grant.releaseCommand(0)));
    }
}
