package io.github.redislock.state;

import static io.github.redislock.state.Rig.MS;
import static io.github.redislock.state.Rig.NO_REPLY;
import static io.github.redislock.state.Rig.granted;
import static io.github.redislock.state.Rig.grants;
import static io.github.redislock.state.Rig.fails;
import static io.github.redislock.state.Rig.lost;
import static io.github.redislock.state.Rig.number;
import static io.github.redislock.state.Rig.says;
import static io.github.redislock.state.Rig.taken;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The rules of grants. † marks what the model of the protocol cannot do without. */
class GrantsTest {
    private final Rig rig = new Rig();

    /** † `sure` moves to the sending of the POLL plus sure-ms (-1: the lease), in this session only. */
    @Test
    void aPollCountsForGrantsOfItsSession() {
        Claim grant = rig.held("k");
        rig.at(109_000).poll(5000, 1);
        rig.sureTill(grant, 114_000);
        rig.at(110_000).poll(1000, 1);
        rig.sureTill(grant, 114_000);
        rig.at(111_000).poll(-1, 1);
        rig.sureTill(grant, 121_000);
        rig.sessionEnded();
        rig.opened(8);
        rig.at(115_000).poll(9000, 1);
        rig.sureTill(grant, 121_000);
    }

    /** † A grant that was learned later, or has another token now, may have been lost before. */
    @Test
    void aPollCountsForGrantsThatWereKnownWhenItWasSent() {
        Rig.Poll poll = rig.begin();
        Claim grant = rig.held("k");
        rig.at(109_000);
        poll.reply(9500, 1);
        rig.sureTill(grant, 110_000);
        Claim other = rig.inLine("l");
        rig.poll(3000, 2, granted("l", 51));
        rig.sureTill(other, 112_000);
    }

    /** A POLL that reaches less far counts for grants that joined after one that reached further. */
    @Test
    void leasesThatDiffer() {
        Claim longer = rig.held("long");
        rig.poll(9900, 1);
        Claim shorter = rig.asked("short");
        rig.answered(shorter, grants(51, 1, 2000)).step(shorter, "done");
        rig.at(101_000).poll(1900, 2);
        rig.sureTill(shorter, 102_900);
        rig.sureTill(longer, 110_000);
        rig.at(102_500).poll(1900, 2);
        rig.has(shorter, Claim.Phase.HELD, null);
        rig.sureTill(shorter, 104_400);
    }

    /** † The reply is no grant: the wait is asked again. A grant with another token counts. */
    @Test
    void aLossBeforeTheReplyThatNamesTheGrant() {
        Claim wait = rig.asked("k");
        Call call = rig.begin("k");
        rig.poll(-1, 0, lost("k", 50));
        rig.answered(wait, grants(50, 1, 10_000)).step(wait, "send");
        rig.answered(wait, grants(51, 1, 10_000)).step(wait, "done");
        rig.end(call, 100_000, number(0));
        rig.isDue();
    }

    @Test
    void aLossIsForgottenWhenTheCallsInItsNameAreAnswered() {
        Call first = rig.begin("k");
        Call second = rig.begin("k");
        Claim.Name name = new Claim.Name("k", "o");
        rig.poll(-1, 0, lost("k", 50));
        rig.end(first, 100_000, number(0));
        assertEquals("deleted", rig.state.lossOf(name, 50));
        assertNull(rig.state.lossOf(name, 51));
        rig.end(second, 100_000, number(0));
        rig.poll(-1, 0, lost("k", 51));
        assertNull(rig.state.lossOf(name, 50));
        assertNull(rig.state.lossOf(name, 51));
        assertTrue(rig.state.calls.isEmpty() && rig.state.losses.isEmpty());
    }

    /** † A program that slept keeps its locks if the next POLL confirms them; else silence ends them. */
    @Test
    void silenceIsJudgedByAPollThatBeganAfterSure() {
        Claim grant = rig.held("k");
        Rig.Poll poll = rig.at(109_900).begin();
        rig.at(130_000);
        poll.reply(0, 1); // after a sleep of 20 s
        rig.has(grant, Claim.Phase.HELD, null);
        assertEquals(100 * MS, rig.node.block());
        assertTrue(grant.sure() <= rig.state.at);
        rig.poll(5000, 1);
        rig.sureTill(grant, 135_000);
        assertEquals(10_000 * MS / 3, rig.node.block());
        rig.at(140_000).node.failed(139_000 * MS, NO_REPLY.fault());
        rig.has(grant, Claim.Phase.ENDED, "silence");
        rig.isDue("LOCK.RELEASE k o ALL TOKEN 50");
    }

    @Test
    void aRefusedConnectionCountsAfterASecondOfTries() {
        Fault fault = Fault.none(false, "refused");
        Claim grant = rig.held("k");
        Claim other = rig.held("other");
        other.sure = 132_000 * MS;
        rig.at(109_000).node.failed(109_000 * MS, fault);
        rig.at(130_000).node.failed(130_000 * MS, fault); // the program slept
        rig.at(130_100).node.failed(130_100 * MS, fault);
        rig.has(grant, Claim.Phase.HELD, null);
        rig.at(131_000).node.failed(130_900 * MS, fault);
        rig.has(grant, Claim.Phase.ENDED, "silence");
        rig.at(133_100).node.failed(132_100 * MS, fault); // one try that takes a second
        rig.has(other, Claim.Phase.ENDED, "silence");
    }

    /** `sure` is lowered before the RENEW, and no POLL sent before its reply counts. */
    @Test
    void aShorterLease() {
        Claim grant = rig.held("k");
        rig.at(101_000);
        Call shorter = grant.renew(2000 * MS, false);
        rig.sureTill(grant, 103_000);
        rig.at(102_000).poll(9000, 1);
        rig.sureTill(grant, 103_000);
        Rig.Poll poll = rig.at(102_400).begin();
        rig.at(102_500);
        rig.end(shorter, 101_000, grants(50, 1, 2000));
        poll.reply(9000, 1);
        rig.sureTill(grant, 103_000);
        rig.at(102_600).poll(1500, 1);
        rig.sureTill(grant, 104_100);
    }

    @Test
    void sureFollowsTheLeaseInTheReply() {
        Claim grant = rig.asked("k");
        rig.answered(grant, grants(50, 1, 3000)).sureTill(grant, 103_000);
        rig.end(grant.enter(List.of()), 102_000, grants(50, 2, 20_000));
        rig.sureTill(grant, 122_000);
        rig.end(grant.enter(List.of()), 103_000, grants(50, 3, 1000));
        rig.sureTill(grant, 122_000);
    }

    @Test
    void aLossIsReportedOnce() {
        Claim grant = rig.held("k");
        rig.poll(5000, 1, lost("k", 49));
        rig.has(grant, Claim.Phase.HELD, null);
        Call check = grant.check();
        rig.poll(5000, 0, lost("k", 50));
        rig.run();
        fails(Kind.LOST, rig.end(check, 100_000, says("NOTHELD x")));
        rig.has(grant, Claim.Phase.ENDED, "deleted");
        assertTrue(rig.run().woken.isEmpty());
    }

    /** OPEN, then what is due, whatever its reply is, then POLL. Of successive NOSESSION only the first breaks nothing. */
    @Test
    void roundsOfTheLoop() {
        rig.held("k");
        rig.poll(-1, 1);
        assertSame(Fault.NONE, rig.round("LOCK.SESSION POLL 7 BLOCK 3333", says("NOSESSION x")));
        assertTrue(rig.round("LOCK.SESSION OPEN", says("LOADING x")).is("LOADING"));
        for (long session = 8; session < 10; session++) {
            assertSame(Fault.NONE, rig.round("LOCK.SESSION OPEN", number(session)));
            assertSame(Fault.NONE, rig.round("LOCK.RENEW k o TOKEN 50 SESSION " + session, says("LOADING x")));
            assertTrue(rig.round("LOCK.SESSION POLL " + session + " BLOCK 3333", says("NOSESSION x")).is("NOSESSION"));
        }
    }

    /** NOTHELD to a RENEW is a loss, any other error is not. A grant that was taken is left alone. */
    @Test
    void movingAGrant() {
        Map<String, Claim> all = Map.of("gone", rig.held("gone"), "kept", rig.held("kept"), "taken", rig.held("taken"));
        Map<String, Reply> replies = Map.of("gone", says("NOTHELD x"), "kept", says("NOPERM x"), "taken", NO_REPLY);
        rig.sessionEnded();
        rig.opened(8);
        rig.at(101_000).node.due().forEach(due -> rig.end(due, 101_000, replies.get(due.command()[1])));
        rig.poll(-1, 0, taken("taken", 9));
        rig.has(all.get("gone"), Claim.Phase.ENDED, "gone (NOTHELD)");
        rig.has(all.get("taken"), Claim.Phase.ENDED, "taken");
        rig.has(all.get("kept"), Claim.Phase.HELD, null);
        rig.isDue("LOCK.RENEW kept o TOKEN 50 SESSION 8");
    }

    /** A grant with a fixed lease leaves the session in which it waited; its own `taken` is no loss. It expires. */
    @Test
    void aFixedLease() {
        Claim claim = rig.claim("k", 5000, 500);
        claim.isFixed = true;
        rig.asked(claim);
        assertTrue(String.join(" ", claim.acquireCommand(7)).contains("PX 1000 HOLDS 1 SESSION 7 QUEUE"));
        rig.answered(claim, grants(50, 1, 1000)).step(claim, "done");
        Call leave = claim.renew(500 * MS, true);
        rig.poll(-1, 0, taken("k", 0));
        rig.end(leave, 100_200, grants(50, 1, 500));
        rig.poll(9000, 0, granted("k", 50));
        rig.sureTill(claim, 100_700);
        rig.sessionEnded();
        rig.opened(8);
        rig.at(100_500).isDue();
        assertNull(claim.end(Long.MAX_VALUE));
        assertEquals(200 * MS, claim.rest(Long.MAX_VALUE));
        rig.at(100_700);
        claim.end(Long.MAX_VALUE);
        rig.has(claim, Claim.Phase.ENDED, "expired");
    }

    /** A RENEW that takes a grant out of its session and gets no answer: no POLL counts, and silence ends the grant. */
    @Test
    void aLeaveWithoutAnAnswer() {
        Claim claim = rig.held("k");
        fails(Kind.UNAVAILABLE, rig.end(claim.renew(3000 * MS, true), 100_000, NO_REPLY));
        rig.end(claim.check(), 100_000, number(1)); // a check is not its answer
        rig.poll(9000, 0, taken("k", 0));
        rig.sureTill(claim, 103_000);
        rig.at(104_000).poll(9000, 0);
        rig.has(claim, Claim.Phase.ENDED, "silence");
    }

    /** A grant with the token 50 that the user has detached. */
    private void detached() {
        Claim claim = rig.held("k");
        rig.end(claim.renew(3000 * MS, true), 100_000, grants(50, 1, 3000));
        claim.letGo();
    }

    /** The events of a grant that has left its session are this client's own doing: nothing is released. */
    @Test
    void eventsOfAGrantThatWasDetached() {
        detached();
        rig.poll(-1, 0, granted("k", 50));
        rig.isDue();
        rig.poll(-1, 0, taken("k", 0));
        assertEquals(List.of(), rig.node.leaves);
    }

    /** It may be adopted, and detached again, before its `taken` arrives. One more `taken` is a loss. */
    @Test
    void aGrantThatIsAdoptedBeforeItsEvents() {
        detached();
        detached();
        Claim claim = rig.held("k");
        rig.poll(-1, 1, granted("k", 50), taken("k", 0));
        rig.poll(-1, 1, taken("k", 0));
        rig.has(claim, Claim.Phase.HELD, null);
        rig.poll(-1, 0, taken("k", 0));
        rig.has(claim, Claim.Phase.ENDED, "taken");
    }

    /** A leave that was refused or outlived its session has no `taken`. Nor has one of a grant outside of sessions. */
    @Test
    void nothingIsKeptOfAGrantThatHasLeft() {
        Claim claim = rig.held("k");
        fails(Kind.REFUSED, rig.end(claim.renew(3000 * MS, true), 100_000, says("NOPERM x")));
        assertEquals(List.of(), rig.node.leaves);
        for (int i = 0; i < 2; i++) {
            rig.end(claim.renew(3000 * MS, true), 100_000, grants(50, 1, 3000));
        }
        assertEquals(1, rig.node.leaves.size());
        rig.sessionEnded();
        assertEquals(List.of(), rig.node.leaves);
    }

    /** A grant whose maximum time is over is lost, and the release names the session. */
    @Test
    void aMaximumTime() {
        Claim claim = rig.held("k");
        assertNull(claim.end(101_000 * MS));
        assertEquals(1000 * MS, claim.rest(101_000 * MS));
        rig.at(101_000);
        Call call = claim.end(101_000 * MS);
        String release = String.join(" ", call.command());
        assertEquals("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7", release);
        rig.has(claim, Claim.Phase.ENDED, "its maximum time is over");
        assertEquals(1, claim.holds); // whose release reports the loss
        rig.end(call, 101_000, NO_REPLY);
        rig.isDue(release);
        rig.apply(number(0));
        rig.isDue();
    }

    /** What another process has detached is adopted by a RENEW. A loss is reported as such. */
    @Test
    void anAdoption() {
        Claim claim = rig.claim("k", 0);
        claim.adopted = 50;
        rig.asked(claim);
        assertEquals("LOCK.RENEW k o PX 10000 SESSION 7 TOKEN 50", String.join(" ", claim.acquireCommand(7)));
        rig.answered(claim, says("NOTHELD x")).step(claim, "LOST");
    }

    /** The token is that of the raise, for events, for its release, and for a loss that is reported before the reply. */
    @Test
    void aRaise() {
        Claim claim = rig.held("k");
        Claim before = rig.held("before");
        Claim both = rig.held("both");
        List<Call> raises = Stream.of(claim, before, both).map(raised -> raised.raise(60)).toList();
        rig.poll(-1, 3, lost("before", 60));
        raises.forEach(raise -> rig.end(raise, 100_000, grants(60, 1, 10_000)));
        rig.has(before, Claim.Phase.ENDED, "deleted");
        assertEquals("60", claim.releaseCommand(0)[6]);
        rig.poll(-1, 2, lost("k", 50)); // of an earlier grant
        rig.poll(-1, 1, lost("both", 60));
        rig.has(claim, Claim.Phase.HELD, null);
        rig.has(both, Claim.Phase.ENDED, "deleted");
    }

    /** In a cluster, a deleted grant may be at another node: it is unsure until that node has answered. */
    @Test
    void aGrantThatMovedToAnotherNode() {
        for (Reply reply : List.of(grants(50, 1, 10_000), says("NOTHELD x"))) {
            Rig rig = new Rig(true);
            Node other = new Node(rig.state, "other");
            other.opened(rig.answer(rig.state.at, number(9)));
            Claim claim = rig.held("k");
            Call check = claim.check();
            Call renewal = claim.renew(10_000 * MS, false);
            rig.poll(-1, 0, lost("k", 50));
            rig.has(claim, Claim.Phase.HELD, null);
            assertTrue(claim.sure() <= rig.state.at && rig.run().woken.contains(claim));
            rig.isDue();
            rig.poll(-1, 0, lost("k", 50)); // while it is in doubt
            assertSame(Fault.NONE, rig.end(renewal, 100_000, grants(50, 1, 10_000)));
            rig.has(claim, Claim.Phase.HELD, null);
            claim.find().apply().apply(new Call.Answer(other, 101_000 * MS, reply, false));
            if (reply.isFault()) {
                rig.has(claim, Claim.Phase.ENDED, "deleted");
                continue;
            }
            assertSame(other, claim.node);
            rig.sureTill(claim, 111_000);
            assertTrue(other.grants.contains(claim));
            rig.poll(-1, 0, lost("k", 50)); // of the node that it has left
            assertSame(Fault.NONE, rig.end(check, 100_000, number(1)));
            assertSame(Fault.NONE, rig.end(claim.renew(10_000 * MS, false), 102_000, grants(50, 1, 10_000)));
            rig.has(claim, Claim.Phase.HELD, null);
        }
    }

    /** A renewal that is under way while the grant is looked for takes nothing from what was sure before. */
    @Test
    void aRenewalWhileAGrantIsLookedFor() {
        Rig rig = new Rig(true);
        Claim claim = rig.held("k");
        Call renewal = claim.renew(5000 * MS, false);
        rig.at(101_000).poll(-1, 0, lost("k", 50));
        rig.end(claim.find(), 101_000, grants(50, 1, 10_000));
        rig.sureTill(claim, 105_000);
        rig.at(102_000).poll(-1, 0);
        rig.end(renewal, 100_000, grants(50, 1, 5000));
        rig.has(claim, Claim.Phase.HELD, null);
        rig.sureTill(claim, 105_000);
    }
}
