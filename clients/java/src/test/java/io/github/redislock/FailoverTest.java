package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class FailoverTest extends LocksTest {
    @Test
    void holdsAndWaitsThroughASentinelFailover() throws Exception {
        List<TestServer> all = sentinels();
        TestServer primary = all.get(0);
        TestServer replica = all.get(1);
        TestServer sentinel = all.get(2);
        Locks locks = locks(Client.Topology.SENTINEL, sentinel.port, Duration.ofSeconds(30));
        ThreadLock lock = locked(locks, "k");
        long token = lock.token();
        var waiting = new Other<>(() -> locked(locks, "k").token());
        eventually("a waiter", () -> primary.waiters("k").size() == 1);
        eventually("the replica has it", () -> Long.valueOf(token).equals(replica.info("k", "token")));
        primary.order("kill");

        within(Duration.ofSeconds(40), "the wait goes on at the new primary", () -> replica.waiters("k").size() == 1);
        lock.lock();
        assertEquals(token, lock.token());
        assertEquals(2L, replica.info("k", "holds"));
        within(Duration.ofSeconds(15), "it is kept at the new primary", () -> replica.calls("lock.renew") > 0);
        lock.unlock();
        lock.unlock();
        assertTrue(waiting.get() > token);
    }
}
