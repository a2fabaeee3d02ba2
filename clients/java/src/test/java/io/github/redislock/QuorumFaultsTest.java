package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** A lock on five servers, some of which are killed, hang, are cut off, forget, lose replies, or have another time. */
class QuorumFaultsTest extends QuorumServersTest {
    private static final long HOUR = 3_600_000_000L;

    /** Of its keeper's events: how many servers are known to be down. */
    private static final class Downs implements LockObserver {
        final AtomicInteger down = new AtomicInteger();
        final AtomicInteger back = new AtomicInteger();

        @Override
        public void keeperEnded(String node, Throwable why) {
            down.incrementAndGet();
        }

        @Override
        public void keeperOpened(String node) {
            back.incrementAndGet();
        }
    }

    @Test
    void anyMinorityMayBeDown() throws Exception {
        List<TestServer> five = five();
        Locks locks = quorum(five);
        Grant held = hold(five, locks.lock("held").lease(Duration.ofMillis(1500)));
        long begun = System.nanoTime();
        for (int down = 1; down <= 2; down++) {
            five.get(down - 1).order("kill");
            List<TestServer> up = five.subList(down, 5);
            for (Locks some : List.of(locks, quorum(five))) { // from the start, and from now on
                Grant grant = hold(up, some.lock("k"));
                grant.check();
                grant.release();
                free(up, "k");
            }
        }
        Thread.sleep(Math.max(0, 1700 - millisSince(begun)));
        held.check();
        held.release();
        five.get(2).order("kill");
        long took = millis(() -> {
            String text = assertThrows(LockUnavailableException.class, () -> locks.lock("k").acquire()).getMessage();
            assertTrue(text.contains("2 of 5 servers") && text.contains("127.0.0.1:" + five.get(2).port + ": "), text);
        });
        assertTrue(took < 1900, took + " ms");
        free(five.subList(3, 5), "k");
        CompletableFuture<Grant> waiting = locks.lock("k").waitingForEver().acquireAsync();
        five.get(1).order("restart");
        waiting.get().release();
    }

    /** What others have on one server says nothing while a majority may be down. */
    @Test
    void aMajorityThatCannotBeUsedIsNotToldAsALockOfOthers() throws Exception {
        List<TestServer> five = five();
        order(five.subList(0, 2), "kill");
        five.get(4).run("LOCK.ACQUIRE k other EX 60");
        hang(five.subList(2, 3));
        assertThrows(LockUnavailableException.class, () -> quorum(five).lock("k").acquire());
        free(five.subList(3, 4), "k");
    }

    @Test
    void aMajorityThatIsLostInTheSecondRoundIsNotToldAsALockOfOthers() throws Exception {
        List<TestServer> five = five();
        five.get(2).run("ACL SETUSER default -lock.renew");
        hang(five.subList(0, 2));
        assertThrows(LockUnavailableException.class, () -> quorum(five).lock("k").acquire());
        free(five.subList(2, 5), "k");
    }

    @Test
    void serversThatHangKeepNobodyWaiting() throws Exception {
        List<TestServer> five = five();
        Locks locks = quorum(five);
        hold(five, locks.lock("k")).release();
        hang(five.subList(0, 2));
        long took = millis(() -> {
            for (int n = 0; n < 10; n++) {
                Grant grant = locks.lock("k").waiting(LONG).acquire();
                grant.check();
                grant.release();
            }
        });
        assertTrue(took < 4000, took + " ms: a time-out each would be 10,000");
        Locks late = quorum(five);
        took = millis(() -> late.lock("other").waiting(LONG).acquire().release());
        assertTrue(took < 2000, took + " ms");
    }

    @Test
    void withoutAMajorityEverythingIsBounded() throws Exception {
        List<TestServer> five = five();
        Locks locks = quorum(five);
        Grant held = hold(five, locks.lock("held").lease(Duration.ofSeconds(2)));
        Grant other = hold(five, locks.lock("other"));
        AtomicInteger told = new AtomicInteger();
        held.onLost(loss -> told.incrementAndGet());
        hang(five.subList(0, 3));
        Locks late = quorum(five);
        for (Locks some : List.of(locks, late)) {
            long took = millis(() -> assertThrows(LockUnavailableException.class, () -> some.lock("k").acquire()));
            assertTrue(took < 1900, took + " ms");
        }
        long took = millis(() -> assertThrows(LockUnavailableException.class,
                () -> locks.lock("k").waiting(Duration.ofMillis(700)).acquire()));
        assertTrue(took < 2500, took + " ms");
        within(Duration.ofSeconds(4), "the lease passes", () -> told.get() == 1);
        assertFalse(held.isHeld());
        took = millis(() -> assertThrows(LockUnavailableException.class, other::check));
        assertTrue(took < 1900, took + " ms");
        took = millis(() -> assertThrows(LockUnavailableException.class, other::release));
        assertTrue(took < 3000, took + " ms");
        var interrupted = new Other<>(() -> locks.lock("k").waitingForEver().acquire());
        Thread.sleep(50);
        interrupted.thread.interrupt();
        took = millis(() -> assertInstanceOf(InterruptedException.class,
                assertThrows(ExecutionException.class, interrupted::get).getCause()));
        assertTrue(took < 1500, took + " ms");
        for (Locks some : List.of(locks, late)) {
            took = millis(some::close);
            assertTrue(took < 2900, took + " ms");
        }
    }

    @Test
    void aServerThatIsBackIsUsedAgainAndToldOfTheReleasesThatItMissed() throws Exception {
        List<TestServer> five = five(Map.of("appendonly", "yes", "appendfsync", "always"));
        Downs seen = new Downs();
        Locks locks = closing(quorumBuilder(five).observer(seen).build());
        Grant grant = hold(five, locks.lock("k").lease(Duration.ofMinutes(1)));
        Grant other = hold(five, locks.lock("other").lease(Duration.ofMinutes(1)));
        five.get(0).order("kill");
        grant.release();
        eventually("it is known to be down", () -> seen.down.get() == 1);
        assertEquals(0, seen.back.get());
        order(five.subList(1, 3), "kill");
        CompletableFuture<Void> releasing = other.releaseAsync(); // by servers that come back in time
        order(five.subList(0, 3), "restart");
        releasing.handle((nothing, failure) -> failure).get(); // or told later, on a busy machine
        eventually("all are back", () -> seen.down.get() >= 3 && seen.back.get() == seen.down.get());
        free(five, "k");
        free(five, "other");
        assertTrue(five.get(0).calls("lock.release") >= 2, "it had not kept the lock");
        hold(five, locks.lock("k")).release();
    }

    @Test
    void aGrantThatComesLateIsReleased() throws Exception {
        List<TestServer> five = five();
        Locks locks = quorum(five);
        hold(five, locks.lock("k")).release();
        free(five, "k");
        TestServer late = five.get(4);
        int before = late.calls("lock.acquire");
        late.order("pause");
        locks.lock("k").acquire().release();
        late.order("resume");
        eventually("the late request", () -> late.calls("lock.acquire") > before);
        free(five, "k");
        hold(five, locks.lock("k")).release();
    }

    /** The tokens of the others are higher, so that what came late would join them. */
    @Test
    void noRequestComesBehindItsReleaseAlsoWhereTheConnectionIsNew() throws Exception {
        List<TestServer> five = five();
        putAhead(five.get(0), 2_000_000, true);
        TestServer late = five.get(4);
        Locks locks = quorum(five);
        late.order("pause");
        Grant grant = locks.lock("k").acquire();
        grant.release();
        late.order("resume");
        eventually("the late release", () -> late.calls("lock.release") > 0);
        Thread.sleep(100); // a request behind it would be there by then
        free(five, "k");
    }

    @Test
    void itEndsWhenAMajorityForgets() throws Exception {
        List<TestServer> five = five();
        Grant grant = hold(five, quorum(five).lock("k").lease(Duration.ofSeconds(3)));
        for (TestServer server : five.subList(0, 2)) {
            server.order("kill");
            server.order("restart");
        }
        grant.check();
        assertEquals(3, standing(five, grant), "none is taken again");
        five.get(2).order("kill");
        five.get(2).order("restart");
        eventually("the loss", () -> !grant.isHeld());
        String text = assertThrows(LockLostException.class, grant::release).getMessage();
        assertTrue(text.contains("NOTHELD"), text);
        free(five, "k");
    }

    /** While held, and from the start: what swallows all bytes is as a server that hangs. */
    @Test
    void aMinorityMayBeCutOff() throws Exception {
        List<TestServer> five = five();
        List<TestServer> proxies = proxies(five);
        Locks locks = quorum(proxies);
        Grant grant = hold(five, locks.lock("k").lease(Duration.ofMillis(1500)));
        order(proxies.subList(0, 2), "swallow");
        Thread.sleep(1700);
        grant.check();
        quorum(proxies).lock("other").waiting(LONG).acquire().release();
        order(proxies.subList(0, 2), "speak");
        grant.release();
        free(five, "k");
        free(five, "other");
    }

    @Test
    void lostRepliesAreNotCountedTwice() throws Exception {
        List<TestServer> five = five();
        List<TestServer> proxies = proxies(five);
        Locks locks = quorum(proxies);
        for (String word : List.of("LOCK.ACQUIRE", "LOCK.RENEW", "LOCK.RELEASE")) {
            hold(five, locks.lock("k")).release();
            free(five, "k");
            int before = proxies.stream().mapToInt(TestServer::lost).sum();
            proxies.forEach(proxy -> proxy.inject("cut", word));
            Grant grant = locks.lock("k").waiting(LONG).acquire();
            for (TestServer server : five) {
                Object holds = server.info("k", "holds");
                assertTrue(holds == null || holds.equals(1L), word + ": " + holds);
            }
            grant.check();
            grant.release();
            free(five, "k");
            eventually(word + " lost", () -> proxies.stream().mapToInt(TestServer::lost).sum() >= before + 3);
        }
    }

    @Test
    void anAcquireThatIsCalledOffWhileACallIsUnderWayLeavesNothing() throws Exception {
        List<TestServer> five = five();
        List<TestServer> proxies = proxies(five);
        Locks locks = quorum(proxies);
        for (String word : List.of("LOCK.ACQUIRE", "LOCK.RENEW")) {
            String command = word.toLowerCase();
            hold(five, locks.lock("k")).release();
            free(five, "k");
            List<Integer> before = five.stream().map(server -> server.calls(command)).toList();
            proxies.forEach(proxy -> proxy.inject(Map.of("delay", 400), word));
            var interrupted = new Other<>(() -> locks.lock("k").acquire());
            eventually("the requests to a majority", () -> {
                int asked = 0;
                for (int n = 0; n < 5; n++) {
                    asked += five.get(n).calls(command) > before.get(n) ? 1 : 0;
                }
                return asked >= 3;
            });
            interrupted.thread.interrupt();
            long took = millis(() -> assertInstanceOf(InterruptedException.class,
                    assertThrows(ExecutionException.class, interrupted::get).getCause()));
            assertTrue(took < 1500, took + " ms");
            free(five, "k");
            proxies.forEach(proxy -> proxy.inject(Map.of("delay", 400), word)); // else it may be granted by then
            CompletableFuture<Grant> cancelled = locks.lock("k").waiting(LONG).acquireAsync();
            cancelled.cancel(false);
            assertThrows(CancellationException.class, cancelled::get);
            free(five, "k");
            assertEquals(0, locks.held());
        }
    }

    @Test
    void aTurnInALineThatEndsWithItsServerIsLeftForTheNextServers() throws Exception {
        List<TestServer> five = five();
        Locks locks = quorum(five);
        Grant grant = hold(five, locks.lock("k"));
        CompletableFuture<Grant> next = locks.lock("k").waitingForEver().acquireAsync();
        eventually("a waiter", () -> five.get(0).waiters("k").size() == 1);
        five.get(0).order("kill");
        eventually("at the next", () -> five.get(1).waiters("k").size() == 1);
        grant.release();
        Grant second = next.get();
        assertTrue(second.token() > grant.token());
        second.release();
        free(five.subList(1, 5), "k");
    }

    /** Makes the server grant tokens that lie so far ahead of time. */
    private static void putAhead(TestServer server, long micros, boolean isBelieved) {
        server.run("CONFIG SET lock.max-token-lead-ms 86400000");
        long token = (Long) ((List<?>) server.run("LOCK.ACQUIRE x me")).get(0);
        server.run("LOCK.RENEW x me TOKEN " + token + " RAISE " + (token + micros));
        server.run("LOCK.RELEASE x me");
        if (!isBelieved) {
            server.run("CONFIG SET lock.max-token-lead-ms 5000");
        }
    }

    private static boolean isOfNow(Grant grant) {
        return grant.token() < System.currentTimeMillis() * 1000 + HOUR / 2;
    }

    @Test
    void serversFarAheadOfTimeAreLeftOutWhileTheyAreAMinorityAndFollowedAsAMajority() throws Exception {
        List<TestServer> five = five();
        for (int ahead = 1; ahead <= 2; ahead++) {
            putAhead(five.get(ahead - 1), ahead * HOUR, false);
            Grant grant = quorum(five).lock("k").waiting(LONG).acquire();
            assertTrue(isOfNow(grant), grant.toString());
            free(five.subList(0, ahead), "k");
            grant.check();
            grant.release();
            free(five, "k");
        }
        five.subList(0, 3).forEach(server -> putAhead(server, 3 * HOUR, true));
        Grant grant = quorum(five).lock("k").waiting(LONG).acquire();
        assertFalse(isOfNow(grant), grant.toString());
        free(five.subList(3, 5), "k");
        grant.release();
    }

    @Test
    void twoThatDoNotGoWithTheFirstOfThreeAreAMajorityWithThoseThatAnswerLater() throws Exception {
        List<TestServer> five = five();
        putAhead(five.get(0), HOUR, false);
        five.subList(3, 5).forEach(slow -> slow.run("CLIENT PAUSE 300 ALL"));
        Grant grant = quorum(five).lock("k").acquire();
        assertTrue(isOfNow(grant), grant.toString());
        free(five.subList(0, 1), "k");
        grant.release();
        free(five, "k");
    }

    @Test
    void whereClocksLeaveNoMajorityTheServersAreNamed() throws Exception {
        List<TestServer> five = five();
        five.get(4).order("kill");
        putAhead(five.get(0), HOUR, false);
        putAhead(five.get(1), HOUR, false);
        String text = assertThrows(LockRefusedException.class, () -> quorum(five).lock("k").waiting(LONG).acquire()).getMessage();
        assertTrue(text.contains("AHEAD") && text.contains("127.0.0.1:" + five.get(2).port + " and 127.0.0.1:"
                + five.get(3).port), text);
        free(five.subList(0, 4), "k");
    }

    @Test
    void aMajorityThatMayHaveItStillIsNoLoss() throws Exception {
        List<TestServer> five = five();
        Grant grant = hold(five, quorum(five).lock("k").lease(LONG));
        five.subList(0, 2).forEach(server -> server.run("DEL k"));
        five.get(2).order("pause");
        assertThrows(LockUnavailableException.class, grant::check);
        assertTrue(grant.isHeld());
        five.get(2).order("resume");
        eventually("it answers", () -> {
            try {
                grant.check();
                return true;
            } catch (LockUnavailableException e) {
                return false;
            }
        });
        grant.release();
        free(five, "k");
    }

    @Test
    void closeIsBoundedWhileServersHang() throws Exception {
        List<TestServer> five = five();
        Locks locks = quorum(five);
        Grant grant = hold(five, locks.lock("k").lease(Duration.ofSeconds(3)));
        hang(five.subList(2, 5));
        long took = millis(locks::close);
        assertTrue(took < 2900, took + " ms");
        assertFalse(grant.isHeld());
        assertNull(five.get(0).info("k", "token"));
        order(five.subList(2, 5), "resume");
        quorum(five).lock("k").waiting(LONG).acquire().release();
    }
}
