package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.testing.StandIn;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One lock over several servers. */
class QuorumTest extends Bed {
    private static final Duration LONG = Duration.ofSeconds(20);
    private final List<TestServer> servers = new ArrayList<>();

    @BeforeEach
    void startThree() {
        for (int n = 0; n < 3; n++) {
            servers.add(start());
        }
    }

    private Quorum quorum(Duration lease) {
        List<LockServer> all = servers.stream()
                .map(server -> connect(Client.JEDIS, server.port, null)).toList();
        return closing(Locks.builder(all.get(0)).service("test").lease(lease).replyTimeout(Duration.ofMillis(300))
                .quorum(all.get(1), all.get(2)));
    }

    private Quorum quorum() {
        return quorum(Duration.ofSeconds(10));
    }

    private boolean isFree(String key) {
        return servers.stream().allMatch(server -> server.info(key, "owner") == null);
    }

    @Test
    void oneTokenOnAllServers() throws Exception {
        QuorumLock lock = quorum().get("k");
        QuorumGrant grant = lock.lock();
        assertTrue(grant.isHeld());
        eventually("the rest joins", () -> servers.stream().allMatch(server -> ((Long) grant.token()).equals(server.info("k", "token"))));
        grant.check();
        grant.extend(Duration.ofSeconds(20));
        assertTrue(grant.remaining().toMillis() > 15_000);
        assertTrue(lock.tryLock().isEmpty());
        thrown(LockBusyException.class, 4000, () -> lock.waiting(Duration.ofMillis(200)).lock());
        assertTrue(grant.isHeld());
        grant.release();
        grant.close();
        assertFalse(grant.isHeld());
        assertThrows(LockMisuseException.class, grant::release);
        eventually("free", () -> isFree("k"));
        QuorumGrant next = lock.tryLock().orElseThrow();
        assertTrue(next.token() > grant.token());
        next.close();
    }

    /** Only a majority is needed; what the other one missed is made good. */
    @Test
    void withoutAMinority() throws Exception {
        Quorum quorum = quorum();
        servers.get(0).order("kill");
        try (QuorumGrant grant = quorum.get("k").lock(); QuorumGrant other = quorum.get("l").lock()) {
            grant.check();
            other.check();
            servers.get(0).order("restart");
        }
        servers.get(1).order("kill");
        servers.get(2).order("pause");
        String said = thrown(LockUnavailableException.class, 3000, () -> quorum.get("m").tryLock()).getMessage();
        assertTrue(said.contains("server 2") && said.contains("refused"), said);
        servers.get(1).order("restart");
        servers.get(2).order("resume");
        try (QuorumGrant grant = quorum.get("m").lock()) {
            grant.check();
        }
        eventually("free", () -> isFree("m"));
    }

    /** A part is lost: the lock goes on. A majority is lost: so is the lock, and the rest is given back. */
    @Test
    void losses() throws Exception {
        LinkedBlockingQueue<LockLostException> lost = new LinkedBlockingQueue<>();
        QuorumGrant grant = quorum().get("k").onLost(lost::add).lock();
        eventually("the rest joins", () -> {
            synchronized (grant) {
                return grant.parts.size() == 3;
            }
        });
        servers.get(1).run("DEL k");
        grant.check();
        assertNull(grant.loss());
        servers.get(0).run("DEL k");
        assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("deleted"));
        assertThrows(LockLostException.class, grant::check);
        assertThrows(LockLostException.class, grant::close);
        eventually("free", () -> isFree("k"));
    }

    /** Waiters of several programs all get it, one at a time, with rising tokens. */
    @Test
    void waiters() throws Exception {
        List<Quorum> programs = List.of(quorum(), quorum(), quorum());
        List<Long> tokens = new ArrayList<>();
        List<FutureTask<Boolean>> all = new ArrayList<>();
        for (Quorum program : programs) {
            for (int n = 0; n < 4; n++) {
                all.add(meanwhile(() -> {
                    for (int round = 0; round < 3; round++) {
                        try (QuorumGrant grant = program.get("k").waiting(Duration.ofSeconds(60)).lock()) {
                            tokens.add(grant.token()); // nobody else has the lock
                        }
                    }
                    return true;
                }));
            }
        }
        for (FutureTask<Boolean> one : all) {
            assertTrue(one.get());
        }
        assertEquals(36, tokens.size());
        assertEquals(tokens.stream().sorted().distinct().toList(), tokens);
    }

    @Test
    void fixedLeasesAndInterrupts() throws Exception {
        Quorum quorum = quorum();
        LinkedBlockingQueue<LockLostException> lost = new LinkedBlockingQueue<>();
        QuorumGrant grant = quorum.get("k").fixed(Duration.ofMillis(400)).onLost(lost::add).lock();
        assertTrue(grant.remaining().toMillis() <= 400);
        assertTrue(lost.poll(10, TimeUnit.SECONDS).getMessage().contains("expired"));
        QuorumGrant held = quorum.get("k").lock();
        FutureTask<Object> waits = new FutureTask<>(() -> assertThrows(InterruptedException.class,
                () -> quorum.get("k").waiting(LONG).lockInterruptibly()));
        Thread thread = new Thread(waits);
        thread.start();
        waiting(servers.get(0), "k", 1);
        thread.interrupt();
        waits.get();
        waiting(servers.get(0), "k", 0);
        held.release();
        eventually("free", () -> isFree("k"));
        assertThrows(LockMisuseException.class, () -> Locks.builder(connect(Client.JEDIS, 1, null)).quorum());
        quorum.close();
        assertThrows(LockMisuseException.class, () -> quorum.get("k").tryLock());
    }

    /** Two servers refuse each token, because their clocks are too far behind. */
    @Test
    void clocksThatDiffer() {
        record Behind(ServerNode standIn) implements ServerNode {
            @Override
            public String address() {
                return standIn.address();
            }

            @Override
            public List<Reply> call(long limit, List<String[]> commands) {
                boolean isRaise = List.of(commands.get(0)).contains("RAISE");
                return isRaise ? List.of(Reply.of(Fault.reply("AHEAD x"))) : standIn.call(limit, commands);
            }

            @Override
            public ServerConnection connection() {
                return standIn.connection();
            }

            @Override
            public void close() {}
        }
        List<LockServer> behind = List.of(new Behind((ServerNode) new StandIn().server()),
                new Behind((ServerNode) new StandIn().server()));
        Quorum quorum = closing(Locks.builder(new StandIn().server()).quorum(behind.get(0), behind.get(1)));
        String said = assertThrows(LockRefusedException.class, () -> quorum.get("k").lock()).getMessage();
        assertTrue(said.contains("server 2: raise k: its clock is behind"), said);
    }
}
