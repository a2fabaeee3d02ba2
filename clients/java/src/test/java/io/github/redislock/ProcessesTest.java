package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static io.github.redislock.TestServer.eventually;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ProcessesTest extends LocksTest {
    private Process holder(TestServer server, String how) throws Exception {
        String java = System.getProperty("java.home") + "/bin/java";
        Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"),
                "io.github.redislock.HolderProcess", client.name(), "" + server.port, how)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        closing(() -> process.destroyForcibly().waitFor());
        assertEquals("held", process.inputReader().readLine());
        return process;
    }

    private static void signal(Process process, String name) throws Exception {
        new ProcessBuilder("kill", "-" + name, "" + process.pid()).start().waitFor();
    }

    private record Granted(long token, long at) {}

    private Other<Granted> waiter(TestServer server) throws Exception {
        Locks locks = locks(server.port, LONG);
        var waiter = new Other<>(() -> {
            ThreadLock lock = locked(locks, "k");
            return new Granted(lock.token(), System.nanoTime());
        });
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        return waiter;
    }

    @Test
    void aProcessThatIsEndedReleasesWhereItWasAskedTo() throws Exception {
        TestServer server = server();
        Process holder = holder(server, "exit");
        eventually("renewals", () -> Integer.parseInt(server.stat("lock_kept_renewals")) > 1);
        var waiter = waiter(server);
        long begun = System.nanoTime();
        signal(holder, "TERM");
        long took = TimeUnit.NANOSECONDS.toMillis(waiter.get().at - begun);
        assertEquals(1, server.calls("lock.release"), "not released but expired after " + took + " ms");
        assertEquals(143, holder.waitFor());
    }

    /** What runs at the exit is not for the client to say: others see to the order in which things end. */
    @Test
    void aProcessThatIsEndedReleasesNothingWhereItWasNotAskedTo() throws Exception {
        TestServer server = server();
        Process holder = holder(server, "");
        signal(holder, "TERM");
        assertEquals(143, holder.waitFor());
        assertEquals(0, server.calls("lock.release"));
    }

    @Test
    void afterAKilledProcessTheLeaseEndsAndTheNextGoesOn() throws Exception {
        TestServer server = server();
        Process holder = holder(server, "");
        eventually("renewals", () -> Integer.parseInt(server.stat("lock_kept_renewals")) > 1);
        long token = (Long) server.info("k", "token");
        var waiter = waiter(server);
        long begun = System.nanoTime();
        signal(holder, "KILL");
        Granted granted = waiter.get();
        long took = TimeUnit.NANOSECONDS.toMillis(granted.at - begun);
        assertTrue(took > 900 && took < 3000, "after " + took + " ms");
        assertTrue(granted.token > token);
        assertEquals(0, server.calls("lock.release"));
    }
}
