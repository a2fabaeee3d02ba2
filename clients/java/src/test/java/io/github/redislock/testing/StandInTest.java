package io.github.redislock.testing;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.Grant;
import io.github.redislock.LockBusyException;
import io.github.redislock.LockLostException;
import io.github.redislock.Locks;
import io.github.redislock.Task;
import io.github.redislock.spi.ServerNode;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class StandInTest {
    private final StandIn standIn = new StandIn();

    private Locks locks() {
        return Locks.of(standIn.server(), "test");
    }

    @Test
    void whatIsLostIsReported() throws Exception {
        try (Locks locks = locks()) {
            LinkedBlockingQueue<LockLostException> lost = new LinkedBlockingQueue<>();
            Grant grant = locks.get("k").onLost(lost::add).lock();
            assertTrue(standIn.lose("k"));
            assertFalse(standIn.lose("k"));
            assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("deleted"));
            assertThrows(LockLostException.class, grant::check);
            assertThrows(LockLostException.class, grant::release);
            locks.get("fixed").fixed(Duration.ofMillis(50)).onLost(lost::add).lock();
            assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("expired"));
            eventually("it is free", () -> standIn.holders("fixed") == 0);
        }
    }

    /** Waiters are served in their order. A grant that was waited for is an event, one that is the reply is none. */
    @Test
    void waitersAreServedInTheirOrder() {
        String session = call("LOCK.SESSION OPEN");
        List<String> owners = List.of("first", "second", "third");
        owners.forEach(owner -> call("LOCK.ACQUIRE k " + owner + " PX 10000 SESSION " + session + " QUEUE 0"));
        assertEquals(2, standIn.waiters("k"));
        assertFalse(call("LOCK.SESSION POLL " + session + " BLOCK 0").contains("granted"));
        for (int n = 1; n < 3; n++) {
            call("LOCK.RELEASE k " + owners.get(n - 1) + " HOLDS 0");
            String events = call("LOCK.SESSION POLL " + session + " BLOCK 0");
            assertTrue(events.contains("granted, k, " + owners.get(n)), events);
        }
        assertEquals(1, standIn.holders("k"));
    }

    private String call(String command) {
        List<String[]> commands = List.<String[]>of(command.split(" "));
        return String.valueOf(((ServerNode) standIn.server()).call(TimeUnit.SECONDS.toNanos(1), commands).get(0).value());
    }

    /** RAISE lifts the token, also when it is repeated, and all later tokens are higher. */
    @Test
    void aRaisedToken() {
        long token = token("LOCK.ACQUIRE k o PX 10000");
        long raised = token + 60_000_000;
        for (int n = 0; n < 2; n++) {
            assertEquals(raised, token("LOCK.RENEW k o TOKEN " + token + " RAISE " + raised));
        }
        assertTrue(token("LOCK.ACQUIRE other o PX 10000") > raised);
    }

    private long token(String command) {
        return Long.parseLong(call(command).replaceAll("^.|,.*", ""));
    }

    @Test
    void theRestOfTheInterface() throws Exception {
        Locks locks = locks();
        try (Locks others = locks()) {
            Task task = locks.task();
            Grant grant = locks.get("k").by(task).lock();
            assertThrows(LockBusyException.class, () -> others.get("k").waiting(Duration.ofMillis(50)).lock());
            locks.get("k").by(task).lock().release();
            grant.check();
            grant.extend(Duration.ofSeconds(20));
            grant.detach(Duration.ofSeconds(20));
            Grant adopted = others.get("k").adopt(grant.owner(), grant.token());
            assertTrue(locks.get("k").tryLock().isEmpty());
            adopted.release();
            Grant one = locks.get("s").permits(2).lock();
            Grant two = others.get("s").permits(2).lock();
            assertTrue(locks.get("s").permits(2).tryLock().isEmpty());
            assertEquals(2, standIn.holders("s"));
            one.release();
            two.release();
            locks.get("shared").shared().lock();
            others.get("shared").shared().lock().release();
            assertEquals(1, standIn.holders("shared"));
            locks.close();
            assertEquals(0, standIn.holders("shared"));
        }
    }
}
