package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.jedis.JedisServer;
import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;

/** A lock on five servers that answer. The promises: docs/quorum.md. */
class QuorumTest extends QuorumServersTest {
    private List<TestServer> five;

    @BeforeEach
    void servers() {
        five = five();
    }

    private void waiters(int server, String key, int number) throws InterruptedException {
        eventually(number + " waiters", () -> five.get(server).waiters(key).size() == number);
    }

    @Test
    void allServersHaveOneTokenAndItRisesFromHolderToHolder() throws Exception {
        List<Locks> clients = List.of(quorum(five), quorum(five));
        long last = 0;
        for (int turn = 0; turn < 10; turn++) {
            Grant grant = hold(five, clients.get(turn % 2).lock("k"));
            assertTrue(grant.token() > last && grant.owner().startsWith("tests:"), grant + " after " + last);
            last = grant.token();
            long left = grant.remaining().toMillis();
            assertTrue(grant.isHeld() && left <= 9898 && left > 5000, left + " ms");
            grant.check();
            grant.release();
            assertFalse(grant.isHeld());
            assertThrows(LockMisuseException.class, grant::release);
            free(five, "k");
        }
    }

    @Test
    void whatIsHeldIsNotGrantedAgainAndAMinoritysGrantsAreGivenBack() throws Exception {
        Locks locks = quorum(five);
        Grant grant = hold(five, locks.lock("k"));
        assertTrue(locks.lock("k").tryAcquire().isEmpty());
        long took = millis(() -> assertThrows(LockBusyException.class,
                () -> quorum(five).lock("k").waiting(Duration.ofMillis(300)).acquire()));
        assertTrue(took >= 300 && took < 2000, took + " ms");
        grant.check();
        assertEquals(5, standing(five, grant));
        grant.release();
        free(five, "k");
        five.subList(0, 3).forEach(server -> server.run("LOCK.ACQUIRE k other"));
        assertThrows(LockBusyException.class, () -> locks.lock("k").acquire());
        assertEquals(List.of(), grants(five.subList(3, 5), "k"));
    }

    @Test
    void itIsRenewedForAsLongAsItIsHeldButAFixedLeaseIsNot() throws Exception {
        Locks locks = closing(quorumBuilder(five).lease(Duration.ofMillis(1200)).build());
        Grant kept = hold(five, locks.lock("k"));
        Grant fixed = locks.lock("fixed").fixed(Duration.ofMillis(1200)).acquire();
        long begun = System.nanoTime();
        Grant atMost = locks.lock("most").atMost(Duration.ofMillis(1900)).acquire();
        fixed.check();
        AtomicLong fixedEnd = new AtomicLong();
        AtomicLong mostEnd = new AtomicLong();
        fixed.onLost(loss -> fixedEnd.set(millisSince(begun)));
        atMost.onLost(loss -> mostEnd.set(millisSince(begun)));
        eventually("both have ended", () -> fixedEnd.get() != 0 && mostEnd.get() != 0);
        assertTrue(fixedEnd.get() > 700 && fixedEnd.get() < 1800, fixedEnd + " ms");
        assertTrue(mostEnd.get() > 1500 && mostEnd.get() < 2700, mostEnd + " ms");
        assertThrows(LockLostException.class, fixed::release);
        assertThrows(LockLostException.class, atMost::check);
        free(five, "fixed");
        free(five, "most");
        kept.check();
        kept.extend(LONG);
        assertTrue(kept.isHeld() && kept.remaining().compareTo(LEASE) > 0);
        assertTrue(standing(five, kept) >= 3);
        kept.release();
    }

    /** What renews it at that time, or a moment later, begins the lease that it has by then. */
    @Test
    void aShorterLeaseStays() throws Exception {
        Grant grant = hold(five, quorum(five).lock("k").lease(Duration.ofMinutes(1)));
        grant.extend(Duration.ofSeconds(20));
        grant.check();
        assertTrue(grant.remaining().toMillis() < 20_000, grant.remaining().toString());
        eventually("it on all servers", () -> five.stream().allMatch(server -> server.info("k", "lease-ms").equals(20_000L)));
        grant.release();
    }

    @Test
    void contendersTakeTurns() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicLong register = new AtomicLong();
        AtomicInteger turns = new AtomicInteger();
        List<Other<Boolean>> all = new ArrayList<>();
        for (int n = 0; n < 6; n++) {
            Locks locks = quorum(five);
            all.add(new Other<>(() -> {
                for (int turn = 0; turn < 5; turn++) {
                    locks.lock("k").waitingForEver().call(grant -> {
                        assertEquals(1, inside.incrementAndGet(), "two holders");
                        long before = register.getAndSet(grant.token());
                        assertTrue(before < grant.token(), grant.token() + " after " + before);
                        Thread.sleep(1);
                        inside.decrementAndGet();
                        return turns.incrementAndGet();
                    });
                }
                return true;
            }));
        }
        for (Other<Boolean> one : all) {
            assertTrue(one.get());
        }
        assertEquals(30, turns.get());
        free(five, "k");
    }

    @Test
    void whoWaitsStandsInTheLineOfTheFirstServerAndIsCalledOffWithoutATrace() throws Exception {
        Locks locks = quorum(five);
        Grant grant = hold(five, locks.lock("k"));
        var interrupted = new Other<>(() -> locks.lock("k").waitingForEver().acquire());
        CompletableFuture<Grant> cancelled = locks.lock("k").waitingForEver().acquireAsync();
        CompletableFuture<Grant> next = quorum(five).lock("k").waitingForEver().acquireAsync();
        waiters(0, "k", 3);
        List<Object> first = five.get(0).waiters("k").stream().map(waiter -> waiter.get("owner")).toList();
        eventually("each attempt has another owner",
                () -> five.get(0).waiters("k").stream().noneMatch(waiter -> first.contains(waiter.get("owner"))));
        interrupted.thread.interrupt();
        assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class, interrupted::get).getCause());
        cancelled.cancel(false);
        assertThrows(CancellationException.class, cancelled::get);
        eventually("both have left", () -> five.get(0).waiters("k").size() <= 1);
        assertEquals(5, standing(five, grant));
        grant.release();
        Grant second = next.get();
        assertTrue(second.token() > grant.token());
        second.release();
        free(five, "k");
        assertEquals(0, locks.held());
    }

    @Test
    void oneServerThatIsNotFreeIsNotWaitedFor() throws Exception {
        five.get(0).run("LOCK.ACQUIRE k other EX 60");
        Locks locks = quorum(five);
        Grant grant = locks.lock("k").acquire();
        CompletableFuture<Grant> next = locks.lock("k").waiting(LONG).acquireAsync();
        waiters(0, "k", 1);
        grant.release();
        next.get().release();
        free(five.subList(1, 5), "k");
    }

    @Test
    void aHolderThatIsGoneIsWaitedForUntilItsLeasesEnd() throws Exception {
        Grant gone = hold(five, quorum(five).lock("k"));
        gone.detach(Duration.ofMillis(1000));
        assertFalse(gone.isHeld());
        long took = millis(() -> {
            Grant next = quorum(five).lock("k").waiting(LONG).acquire();
            assertTrue(next.token() > gone.token());
            next.release();
        });
        assertTrue(took > 300 && took < 4000, took + " ms");
    }

    @Test
    void aGrantIsAdoptedByAnotherClient() throws Exception {
        Locks locks = quorum(five);
        Grant grant = hold(five, locks.lock("k"));
        grant.detach(LONG);
        Grant adopted = quorum(five).adopt("k", grant.owner(), grant.token());
        assertEquals(grant.token(), adopted.token());
        assertTrue(adopted.isHeld() && standing(five, adopted) == 5);
        adopted.release();
        free(five, "k");
        assertThrows(LockLostException.class, () -> locks.adopt("k", grant.owner(), grant.token()));
    }

    @Test
    void threadsAndTasksEnterAgainAndTheClientCounts() throws Exception {
        Locks locks = quorum(five);
        ThreadLock lock = locked(locks, "k");
        lock.lock();
        assertTrue(lock.tryLock() && lock.isHeldByCurrentThread());
        assertEquals(3, lock.getHoldCount());
        List<Object> holds = five.stream().map(server -> server.info("k", "holds")).filter(Objects::nonNull).toList();
        assertTrue(holds.size() >= 3 && holds.stream().allMatch(Long.valueOf(1)::equals), holds.toString());
        assertFalse(new Other<>(() -> locks.lock("k").asLock().tryLock()).get());
        lock.unlock();
        lock.unlock();
        lock.check();
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        free(five, "k");

        Task task = locks.task();
        Grant outer = locks.lock("k").by(task).acquire();
        Grant inner = new Other<>(() -> locks.lock("k").by(task).acquire()).get();
        assertEquals(outer.token(), inner.token());
        outer.release();
        inner.check();
        inner.release();
        free(five, "k");
    }

    @Test
    void severalAtOnceALeaderAndWorkThatIsDoneOnce() throws Exception {
        Locks locks = quorum(five);
        try (Grants grants = locks.all("b", "a", "b").waiting(LONG).acquire()) {
            assertEquals(List.of("a", "b"), grants.all().stream().map(Grant::key).toList());
            assertTrue(quorum(five).all("0", "b").tryAcquire().isEmpty());
            free(five, "0");
        }
        free(five, "a");

        AtomicInteger terms = new AtomicInteger();
        assertEquals("stop", assertThrows(IllegalStateException.class, () -> locks.lock("k").lead(grant -> {
            if (terms.incrementAndGet() == 2) {
                throw new IllegalStateException("stop");
            }
            return null;
        })).getMessage());
        assertEquals(2, terms.get());

        AtomicReference<String> found = new AtomicReference<>();
        AtomicInteger done = new AtomicInteger();
        List<Other<String>> all = new ArrayList<>();
        for (int n = 0; n < 4; n++) {
            all.add(new Other<>(() -> locks.lock("once").waiting(LONG).once(() -> Optional.ofNullable(found.get()), grant -> {
                done.incrementAndGet();
                found.set("it");
                return "it";
            })));
        }
        for (Other<String> one : all) {
            assertEquals("it", one.get());
        }
        assertEquals(1, done.get());
    }

    @Test
    void theLossOfAMajorityIsToldByAllWaysAndAMinoritysIsNone() throws Exception {
        AtomicInteger observed = new AtomicInteger();
        Locks locks = closing(quorumBuilder(five).lease(Duration.ofMillis(1800)).observer(new LockObserver() {
            @Override
            public void lost(String key, Duration held) {
                observed.incrementAndGet();
            }
        }).build());
        Grant grant = hold(five, locks.lock("k"));
        AtomicReference<LockLostException> told = new AtomicReference<>();
        grant.onLost(told::set);
        five.subList(0, 2).forEach(server -> server.run("DEL k"));
        grant.check();
        assertEquals(3, standing(five, grant), "none is taken again");
        five.get(2).run("DEL k");
        five.get(2).run("LOCK.ACQUIRE k other");
        eventually("the loss", () -> told.get() != null);
        assertTrue(told.get().getMessage().contains("NOTOWNER"), told.get().getMessage());
        assertFalse(grant.isHeld());
        assertEquals(Duration.ZERO, grant.remaining());
        assertEquals(1, observed.get());
        assertThrows(LockLostException.class, grant::check);
        assertThrows(LockLostException.class, grant::release);
        five.get(2).run("DEL k");
        free(five, "k"); // what a minority had is given back

        Grant again = hold(five, locks.lock("again"));
        five.subList(0, 3).forEach(server -> server.run("DEL again"));
        assertThrows(LockLostException.class, again::release);
        free(five, "again");

        LockLostException loss = assertThrows(LockLostException.class, () -> locks.lock("work").call(grantOfWork -> {
            five.forEach(server -> server.run("DEL work"));
            Thread.sleep(60_000);
            return true;
        }));
        assertInstanceOf(InterruptedException.class, loss.getSuppressed()[0]);
    }

    @Test
    void whatIsNoQuorumOrNoLockOfOneIsMisuse() {
        List<LockServer> servers = lockServers(five);
        for (List<LockServer> some : List.of(List.<LockServer>of(), servers.subList(0, 1), servers.subList(0, 2),
                servers.subList(0, 4), List.of(servers.get(0), servers.get(1), servers.get(0)),
                List.of(servers.get(0), servers.get(1), lockServers(five.subList(0, 1)).get(0)),
                List.of(servers.get(0), servers.get(1), JedisServer.cluster(
                        List.of(new HostAndPort("127.0.0.1", 1)), DefaultJedisClientConfig.builder().build())))) {
            assertThrows(LockMisuseException.class, () -> Locks.quorum(some));
        }
        servers.forEach(LockServer::close);
        Locks locks = quorum(five);
        for (Runnable misuse : List.<Runnable>of(() -> locks.shared("k"), () -> locks.permit("k", 2),
                () -> locks.readWriteLock("k"), () -> locks.lock("k").owner("me"), () -> locks.lock("k").replicas(1),
                () -> locks.holders("k"), () -> locks.forceUnlock("k"), () -> locks.lock("k").asLock().isLocked())) {
            assertTrue(assertThrows(LockMisuseException.class, misuse::run).getMessage().startsWith("on several servers"));
        }
    }

    @Test
    void aGrantIsNotDowngraded() throws Exception {
        Grant grant = quorum(five).lock("k").acquire();
        assertThrows(LockMisuseException.class, grant::downgrade);
        grant.check();
        grant.release();
    }

    @Test
    void aRefusalByAMajorityIsToldAtOnceAndByWhichServer() throws Exception {
        five.subList(3, 5).forEach(server -> server.run("SET k 1"));
        Locks locks = quorum(five);
        Grant grant = locks.lock("k").waiting(LONG).acquire();
        grant.check();
        grant.release();
        free(five.subList(0, 3), "k");
        five.get(2).run("SET k 1");
        String text = assertThrows(LockMisuseException.class, () -> locks.lock("k").waitingForEver().acquire()).getMessage();
        assertTrue(text.contains("WRONGTYPE") && text.contains("127.0.0.1:" + five.get(2).port), text);
        free(five.subList(0, 2), "k");
    }

    @Test
    void closeGivesEverythingBackAndCallsEverythingOff() throws Exception {
        Locks locks = quorum(five);
        Grant foreign = hold(five, quorum(five).lock("foreign"));
        Grant grant = hold(five, locks.lock("k"));
        CompletableFuture<Grant> waiting = locks.lock("foreign").waitingForEver().acquireAsync();
        waiters(0, "foreign", 1);
        long took = millis(locks::close);
        assertTrue(took < 2900, took + " ms");
        assertInstanceOf(LockMisuseException.class, assertThrows(ExecutionException.class, waiting::get).getCause());
        assertFalse(grant.isHeld());
        assertThrows(LockLostException.class, grant::release);
        assertEquals(List.of(), grants(five, "k"));
        waiters(0, "foreign", 0);
        foreign.check();
        assertThrows(LockMisuseException.class, () -> locks.lock("k").acquire());
    }

    /** A majority has carried it out. */
    @Test
    void aShorterLeaseThatWasNotAnsweredIsBelieved() throws Exception {
        List<TestServer> five = five();
        List<TestServer> proxies = proxies(five);
        Grant grant = hold(five, quorum(proxies).lock("k").fixed(LONG));
        proxies.subList(0, 3).forEach(proxy -> proxy.inject("silence", "LOCK.RENEW"));
        assertThrows(LockUnavailableException.class, () -> grant.extend(Duration.ofMillis(1200)));
        free(five, "k");
        within(Duration.ofSeconds(1), "it is told", () -> !grant.isHeld());
    }
}
