package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Grants that are adopted, and owners that several processes use. */
class HandoverTest extends ProxiedTest {
    /** Has the lock taken in a name, as another process would do it, and gives its token. */
    private long taken() {
        server.run("LOCK.ACQUIRE k mine EX 60");
        return (Long) server.info("k", "token");
    }

    @Test
    void anAdoptedGrantCountsToo() throws Exception {
        start(LONG);
        long token = taken();
        Grant adopted = locks.adopt("k", "mine", token);
        Grant second = locks.lock("k").owner("mine").acquire();
        Grant again = locks.adopt("k", "mine", token);
        assertEquals(3L, server.info("k", "holds"));
        adopted.release();
        second.check();
        second.release();
        again.release();
        assertEquals(0L, server.run("EXISTS k"));

        server.run("LOCK.ACQUIRE k mine EX 60");
        locks.adopt("k", "mine", taken()).release();
        assertEquals(0L, server.run("EXISTS k"), "a hold stayed, for nobody");
    }

    @Test
    void adoptionsAtTheSameTimeCountTheirHolds() throws Exception {
        start(LONG);
        long token = taken();
        proxy.inject(Map.of("delay", 500), "LOCK.RENEW");
        var first = new Other<>(() -> locks.adopt("k", "mine", token));
        eventually("it is asked for", () -> server.calls("lock.renew") == 1);
        var second = new Other<>(() -> locks.adopt("k", "mine", token));
        var third = new Other<>(() -> locks.lock("k").owner("mine").acquire());
        List<Grant> all = List.of(first.get(), second.get(), third.get());
        for (Grant one : all) {
            one.check();
            one.release();
        }
        assertEquals(0L, server.run("EXISTS k"));
    }

    @Test
    void aCheckHearsOfAReleaseInItsName() throws Exception {
        start(LONG);
        Locks others = locks(server.port, LONG);
        for (boolean isAdopted : new boolean[] {false, true}) {
            Grant grant = locks.lock("k").owner("mine").acquire();
            if (isAdopted) {
                grant.detach(LONG);
                grant = others.adopt("k", "mine", grant.token());
            }
            grant.check();
            AtomicInteger told = new AtomicInteger();
            grant.onLost(why -> told.incrementAndGet());
            server.run("LOCK.RELEASE k mine ALL");
            server.run("LOCK.ACQUIRE k other EX 60");
            assertThrows(LockLostException.class, grant::check);
            eventually("it is told", () -> told.get() == 1);
            assertThrows(LockLostException.class, grant::release);
            server.run("LOCK.RELEASE k other");
        }
        int fences = server.calls("lock.fence");
        try (Grant fresh = locks.lock("fresh").acquire()) {
            fresh.check();
        }
        assertEquals(fences, server.calls("lock.fence"), "others ask no more than they did");
    }

    @Test
    void whatAnotherConnectionKeepsIsNotTakenBack() throws Exception {
        start(LONG);
        Locks others = locks(server.port, LONG);
        Grant bystander = locks.lock("bystander").acquire();
        Grant first = locks.lock("k").owner("mine").acquire();
        AtomicInteger told = new AtomicInteger();
        first.onLost(why -> told.incrementAndGet());
        Grant second = others.adopt("k", "mine", first.token());
        eventually("it is told", () -> told.get() == 1);
        String closes = server.stat("lock_kept_closes");
        assertTrue(assertThrows(LockLostException.class, first::check).getMessage().contains("another connection"));
        Thread.sleep(1000);
        assertEquals(closes, server.stat("lock_kept_closes"), "they take it from each other");
        second.check();
        bystander.check();
        int releases = server.calls("lock.release");
        assertThrows(LockLostException.class, first::release);
        assertEquals(releases, server.calls("lock.release"));
        second.check();
        Grant third = locks.adopt("k", "mine", second.token()); // the last one to ask keeps it
        eventually("the other is told", () -> !second.isHeld());
        third.check();
        third.release();
        bystander.check();
    }

    /** The server has not noticed that the connection is gone. */
    @Test
    void whatAnEarlierConnectionOfItsOwnKeepsIsTakenOver() throws Exception {
        start(LONG);
        Grant grant = locks.lock("k").owner("mine").acquire();
        proxy.order("forget");
        int renewals = server.calls("lock.renew");
        eventually("it is kept again", () -> server.calls("lock.renew") > renewals);
        grant.check();
        server.run("CLIENT KILL TYPE normal SKIPME yes");
        grant.check();
        grant.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    /** LOCK.HOLDERS is not among the rights of the users in docs/operations.md. */
    @Test
    void whoMustNotLookRenewsWithoutThat() throws Exception {
        server = server();
        server.addUser("application");
        server.run("SELECT 2");
        Locks users = closing(builder(Client.Topology.SINGLE, server.port, "application").lease(LONG).build());
        Grant grant = users.lock("lock:k").owner("mine").acquire();
        server.run("CLIENT KILL TYPE normal SKIPME yes");
        eventually("it is kept again", () -> server.calls("lock.renew") > 0);
        grant.check();
        grant.release();
    }

    @Test
    void anAdoptionThatIsGivenUpKeepsNothing() throws Exception {
        start(LONG);
        long token = taken();
        proxy.inject("keep", "KEEP");
        assertThrows(LockUnavailableException.class, () -> locks.adopt("k", "mine", token));
        eventually("the keeper's own is kept again", () -> server.calls("lock.renew") >= 2);
        eventually("not kept", () -> server.keep("k") == 0);
        assertEquals(token, server.info("k", "token"));
    }

    /** Also of a grant whose owner nobody has named. */
    @Test
    void whatIsHeldHereIsAdoptedAsOneMoreHold() throws Exception {
        start(LONG);
        for (RedisLock lock : List.of(locks.lock("k"), locks.lock("k").by(locks.task()), locks.shared("k"),
                locks.permit("k", 3), locks.shared("k").owner("reader"))) {
            Grant first = lock.acquire();
            Grant second = locks.adopt("k", first.owner(), first.token());
            assertEquals(2, first.holds());
            second.release();
            first.check();
            assertEquals(1L, server.info("k", "holds"));
            Grant third = locks.adopt("k", first.owner(), first.token());
            first.release();
            third.check();
            third.release();
            assertEquals(0L, server.run("EXISTS k"));
        }
    }

    @Test
    void anAdoptionOfAShareLeavesItShared() throws Exception {
        start(LONG);
        Grant first = locks.shared("k").owner("reader").acquire();
        Grant other = locks.shared("k").acquire();
        Grant second = locks.adopt("k", "reader", first.token());
        locks.shared("k").acquire().release();
        second.release();
        first.release();
        other.check();
        other.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    /** Between the grant of a wait and its takeover another process asks in the same name. */
    @Test
    void aTakeoverTakesNothingFromWhoAskedLater() throws Exception {
        start(LONG);
        Locks others = locks(server.port, LONG);
        Grant bystander = others.lock("bystander").acquire();
        server.run("LOCK.ACQUIRE k other EX 60");
        var waiting = new Other<>(() -> locks.lock("k").owner("mine").waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("k").size() == 1);
        server.run("LOCK.RELEASE k other");
        Grant first = waiting.get();
        Grant second = others.lock("k").owner("mine").acquire();
        assertEquals(first.token(), second.token());
        AtomicInteger told = new AtomicInteger();
        second.onLost(why -> told.incrementAndGet());
        eventually("one of them is told", () -> !first.isHeld() || told.get() > 0);
        assertFalse(first.isHeld());
        second.check();
        bystander.check();
        second.release();
    }

    /** After a restart the server counts its connections anew: what was an own one is another's. */
    @Test
    void anIdOfBeforeARestartIsAnybodys() throws Exception {
        server = server(Map.of("appendonly", "yes"));
        locks = locks(server.port, LONG);
        Locks others = locks(server.port, LONG);
        while (server.newId() < 100) { }
        Grant first = locks.lock("k").owner("mine").acquire();
        long own = server.keptBy("k");
        server.order("stop");
        server.order("restart");
        eventually("it is kept again", () -> server.keptBy("k") > 0);
        assertTrue(server.keptBy("k") < own);
        while (server.newId() < own - 1) { }
        Grant second = others.lock("k").owner("mine").acquire();
        assertEquals(own, server.keptBy("k"), "the same id");
        eventually("one of them is told", () -> !first.isHeld() || !second.isHeld());
        assertFalse(first.isHeld());
        second.check();
        second.release();
    }

    /** The answer to the look who keeps it is older than the acquire. */
    @Test
    void whoEntersAgainWhileItIsLookedHasIt() throws Exception {
        start(LONG);
        Locks others = locks(server.port, LONG);
        Grant first = locks.lock("k").owner("mine").acquire();
        proxy.inject(Map.of("delay", 500), "LOCK.HOLDERS");
        int looks = server.calls("lock.holders");
        Grant second = others.lock("k").owner("mine").acquire();
        eventually("it is looked", () -> server.calls("lock.holders") > looks);
        Grant again = locks.lock("k").owner("mine").acquire();
        eventually("the other is told", () -> !second.isHeld());
        again.check();
        first.check();
        again.release();
        first.release();
        assertEquals(0L, server.run("EXISTS k"));
    }

    /** The keeper has ended by an adoption, of which it has not heard yet. */
    @Test
    void aReleaseTakesNothingFromWhoHasAdoptedIt() throws Exception {
        start(LONG);
        Locks others = locks(server.port, LONG);
        others.lock("bystander").acquire();
        for (int n = 0; n < 10; n++) {
            Grant first = locks.lock("k").owner("mine").acquire();
            proxy.inject(Map.of("delay", 200), "LOCK.HOLDERS");
            int looks = server.calls("lock.holders");
            Grant second = others.adopt("k", "mine", first.token());
            eventually("its keeper has ended", () -> server.calls("lock.holders") > looks);
            assertThrows(LockLostException.class, first::release);
            second.check();
            second.release();
        }
    }
}
