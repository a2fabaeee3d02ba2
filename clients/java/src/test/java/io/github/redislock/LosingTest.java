package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Losses, and what is no loss. */
class LosingTest extends LocksTest {
    @Test
    void aLossIsToldAtOnceAndInterruptsTheWork() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        for (String refusal : List.of("NOTHELD", "NOTOWNER", "FENCED", "WRONGTYPE")) {
            long begun = System.nanoTime();
            var lost = assertThrows(LockLostException.class, () -> locks.lock("k").waiting(LONG).call(grant -> {
                Object owner = server.info("k", "owner");
                server.run("MULTI");
                server.run("DEL k");
                switch (refusal) {
                    case "NOTOWNER" -> server.run("LOCK.ACQUIRE k other EX 60");
                    case "FENCED" -> server.run("LOCK.ACQUIRE k " + owner + " EX 60");
                    case "WRONGTYPE" -> server.run("SET k text");
                    default -> { }
                }
                server.run("EXEC");
                assertThrows(InterruptedException.class, () -> Thread.sleep(10_000));
                assertThrows(LockLostException.class, grant::check);
                return true;
            }));
            assertTrue(lost.getMessage().contains(refusal), lost.getMessage());
            assertTrue(millisSince(begun) < 1000, "told late"); // of a lease of 20 s
            assertFalse(Thread.currentThread().isInterrupted());
            server.run("DEL k");
        }
        locked(locks, "k").unlock();
    }

    @Test
    void theWorksOwnErrorIsKept() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        RedisLock lock = locks.lock("k").waiting(LONG);
        var work = assertThrows(ArithmeticException.class, () -> lock.call(grant -> {
            server.run("DEL k");
            while (grant.isHeld()) {
                Thread.onSpinWait(); // which no interrupt ends
            }
            throw new ArithmeticException();
        }));
        assertInstanceOf(LockLostException.class, work.getSuppressed()[0]);
        var loss = assertThrows(LockLostException.class, () -> lock.call(grant -> {
            server.run("DEL k");
            Thread.sleep(10_000);
            return true;
        }));
        assertInstanceOf(InterruptedException.class, loss.getSuppressed()[0]);
        assertFalse(Thread.currentThread().isInterrupted());
        server.run("LOCK.ACQUIRE taken other EX 60");
        assertThrows(LockBusyException.class, () -> locks.lock("taken").waiting(SHORT).call(grant -> true));
        assertThrows(ArithmeticException.class, () -> lock.call(grant -> 1 / 0));
        assertNull(server.info("k", "owner"));
        var closed = assertThrows(ArithmeticException.class, () -> {
            try (Grant grant = lock.acquire()) {
                server.run("DEL k");
                eventually("told", () -> !grant.isHeld());
                throw new ArithmeticException();
            }
        });
        assertInstanceOf(LockLostException.class, closed.getSuppressed()[0]);
    }

    @Test
    void aLossIsToldOnceToEachListener() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Grant grant = locks.lock("k").acquire();
        Grant stays = locks.lock("stays").acquire();
        AtomicInteger told = new AtomicInteger();
        grant.onLost(why -> told.incrementAndGet());
        stays.onLost(why -> told.addAndGet(100));
        server.run("DEL k");
        eventually("it is told", () -> told.get() == 1);
        CountDownLatch late = new CountDownLatch(1);
        grant.onLost(why -> late.countDown());
        late.await();
        stays.check();
        assertEquals(1, told.get());
        assertThrows(LockLostException.class, grant::release);
        stays.release();
    }

    /** A grant may outlive much work under it. */
    @Test
    void whoHasWorkedUnderItIsRememberedNoLonger() throws Exception {
        Locks locks = locks(server().port);
        Task task = locks.task();
        try (Grant grant = locks.lock("k").by(task).acquire()) {
            WeakReference<Thread> worker = work(() -> locks.lock("k").by(task).call(again -> true));
            WeakReference<Thread> other = work(() -> locks.all("k").each(lock -> lock.by(task)).call(again -> true));
            eventually("nobody knows them", () -> {
                System.gc();
                return worker.get() == null && other.get() == null;
            });
            grant.check();
        }
    }

    private static WeakReference<Thread> work(Callable<Boolean> work) throws Exception {
        Other<Boolean> other = new Other<>(work);
        assertTrue(other.get());
        return new WeakReference<>(other.thread);
    }

    @Test
    void aLossIsToldByUnlockAndByLockingAgain() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        ThreadLock lock = locked(locks, "k");
        server.run("DEL k");
        eventually("it is told", () -> !lock.isHeldByCurrentThread());
        assertThrows(LockLostException.class, lock::unlock);
        lock.lock();
        server.run("DEL k");
        assertThrows(LockLostException.class, lock::lock);
        assertThrows(LockLostException.class, lock::check);
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(LockLostException.class, lock::unlock);
        lock.lock();
        lock.unlock();
    }

    @Test
    void aLeaseThatPassesInSilenceIsLost() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofMillis(2500));
        Grant grant = locks.lock("k").acquire();
        Thread.sleep(1200); // some PINGs
        server.order("pause");
        try {
            long known = grant.remaining().toMillis();
            long begun = System.nanoTime();
            assertTrue(known <= 2500 && known > 1000, known + " ms");
            eventually("it is told", () -> !grant.isHeld());
            long took = millisSince(begun);
            assertTrue(took >= known - 900 && took < known + 900, took + " of " + known);
        } finally {
            server.order("resume");
        }
        assertThrows(LockLostException.class, grant::release);
    }

    /** Their ends come one shortly after the other, as each was proved by its own answer only. */
    @Test
    void manyThatAreLostInSilenceAreToldInTime() throws Exception {
        TestServer proxy = proxy(server());
        Locks locks = closing(builder(Client.Topology.SINGLE, proxy.port).lease(Duration.ofSeconds(2))
                .replyTimeout(Duration.ofSeconds(3)).build());
        List<Grant> grants = new ArrayList<>();
        long begun = System.nanoTime();
        while (millisSince(begun) < 400) { // before the first PONG
            grants.add(locks.lock("k" + grants.size()).acquire());
        }
        AtomicLong last = new AtomicLong();
        CountDownLatch told = new CountDownLatch(grants.size());
        for (Grant grant : grants) {
            grant.onLost(why -> {
                last.set(millisSince(begun));
                told.countDown();
            });
        }
        proxy.order("swallow");
        assertTrue(told.await(10, TimeUnit.SECONDS), told.getCount() + " are not told");
        assertTrue(last.get() < 4000, "the last one was told after " + last);
    }

    /** The server may keep it still, for nobody: it is told as soon as it is heard again. */
    @Test
    void whatIsLostInSilenceIsGivenBackLater() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        Locks locks = locks(proxy.port, Duration.ofSeconds(2));
        Task task = locks.task();
        String owner = task.owner();
        Grant grant = locks.lock("k").by(task).acquire();
        proxy.order("swallow");
        eventually("it is told", () -> !grant.isHeld());
        Thread.sleep(2500); // longer than a release may take
        int releases = server.calls("lock.release");
        proxy.order("speak");
        eventually("it is given back", () -> server.calls("lock.release") > releases);
        assertEquals(0L, server.run("EXISTS k"));
        assertFalse(owner.equals(task.owner()), "what is given back late could be got again");
    }

    @Test
    void aServerThatHangsForLessThanALeaseCostsNothing() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(8));
        Grant grant = locks.lock("k").acquire();
        AtomicInteger told = new AtomicInteger();
        grant.onLost(why -> told.incrementAndGet());
        server.order("pause");
        long begun = System.nanoTime();
        assertThrows(LockUnavailableException.class, grant::check);
        assertTrue(millisSince(begun) < 2000);
        Thread.sleep(1500);
        server.order("resume");
        eventually("it answers", () -> {
            try {
                grant.check();
                return true;
            } catch (LockUnavailableException e) {
                return false;
            }
        });
        assertEquals(0, told.get());
        grant.release();
    }

    /** Nothing but a PING can tell it: the connections stay open. */
    @Test
    void aSilentNetworkIsFoundAndLeft() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        Locks locks = locks(proxy.port, Duration.ofSeconds(4));
        Grant grant = locks.lock("k").acquire();
        server.run("LOCK.ACQUIRE taken other EX 60");
        var waiting = new Other<>(() -> locked(locks, "taken").token());
        eventually("a waiter", () -> server.waiters("taken").size() == 1);
        Object before = server.waiters("taken").get(0).get("client-id");
        proxy.order("silence");
        eventually("the wait is left", () ->
                server.waiters("taken").stream().noneMatch(waiter -> waiter.get("client-id").equals(before)));
        proxy.order("speak");
        server.run("LOCK.RELEASE taken other");
        assertEquals(waiting.get(), server.info("taken", "token"));
        eventually("all is as it was", () -> {
            try {
                grant.check();
                return true;
            } catch (LockUnavailableException e) {
                return false;
            }
        });
        grant.release();
    }

    @Test
    void lostAnswersDoNotCountTwice() throws Exception {
        TestServer server = server();
        TestServer cutting = proxy(server);
        Locks locks = locks(cutting.port);
        cutting.inject("cut", "LOCK.ACQUIRE");
        ThreadLock lock = locked(locks, "k");
        assertEquals(1, cutting.lost());
        assertEquals(1L, server.info("k", "holds"));
        cutting.inject("cut", "LOCK.ACQUIRE");
        lock.lock();
        assertEquals(2, cutting.lost());
        assertEquals(2L, server.info("k", "holds"));
        cutting.inject("cut", "LOCK.RELEASE");
        lock.unlock();
        assertEquals(3, cutting.lost());
        assertEquals(1L, server.info("k", "holds"));
        cutting.inject("cut", "LOCK.RELEASE");
        lock.unlock();
        assertEquals(4, cutting.lost());
        assertNull(server.info("k", "holds"));
    }

    @Test
    void aRestartWithoutDataIsALossAndWithConnectionsAloneNone() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        Grant grant = locks.lock("k").acquire();
        for (int n = 0; n < 3; n++) {
            server.run("CLIENT KILL TYPE normal SKIPME yes");
            grant.check();
        }
        server.order("kill");
        server.order("restart");
        eventually("the loss is told", () -> !grant.isHeld());
        locks.lock("k").acquire().release();
        assertThrows(LockLostException.class, grant::release);
    }

    @Test
    void aServerThatIsGoneIsALossALeaseLater() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port, Duration.ofSeconds(2));
        Grant grant = locks.lock("k").acquire();
        Thread.sleep(1000); // some PINGs
        long begun = System.nanoTime();
        server.order("kill");
        eventually("it is told", () -> !grant.isHeld());
        assertTrue(millisSince(begun) < 3000, millisSince(begun) + " ms");
        assertThrows(LockLostException.class, grant::release);
    }

    @Test
    void lossesInQuickOrderAreAllToldAtOnce() throws Exception {
        TestServer server = server();
        Locks locks = locks(server.port);
        locks.lock("stays").acquire();
        for (int n = 0; n < 8; n++) {
            Grant grant = locks.lock("k").acquire();
            long begun = System.nanoTime();
            server.run("DEL k");
            eventually("it is told", () -> !grant.isHeld());
            assertTrue(millisSince(begun) < 500, millisSince(begun) + " ms");
        }
    }

    /** It tells of the connection, and of no defect, so that the call is made again on another one. */
    @Test
    void aCommandOnAConnectionThatHasEndedFailsAndConnectsNoMore() throws Exception {
        TestServer server = server();
        LockServer lockServer = lockServer(server.port);
        closing(lockServer::close);
        for (int n = 0; n < 20; n++) {
            ServerConnection connection = lockServer.connect("", LONG);
            connection.send(Words.PING).get();
            int opened = Integer.parseInt(server.stat("total_connections_received"));
            if (n % 2 == 0) {
                connection.close();
            } else {
                server.run("CLIENT KILL TYPE normal SKIPME yes");
            }
            var failure = assertThrows(ExecutionException.class, () -> connection.send(Words.PING).get());
            assertInstanceOf(IOException.class, failure.getCause());
            assertEquals(opened, Integer.parseInt(server.stat("total_connections_received")));
            connection.close();
        }
    }
}
