package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A lock on five servers is renewed while calls are late: nothing of an earlier call comes behind a later one. */
class QuorumOrderTest extends QuorumServersTest {
    private List<TestServer> five;
    private List<TestServer> proxies;
    private Locks locks;

    @BeforeEach
    void servers() {
        five = five();
        proxies = proxies(five);
        locks = closing(quorumBuilder(proxies).lease(Duration.ofMinutes(1)).build());
    }

    private List<Object> leases() {
        return five.stream().map(server -> server.info("k", "lease-ms")).toList();
    }

    /** Else some servers have another lease than the one that is counted. */
    @Test
    void whatIsSentAgainOfARenewalComesBehindNoLaterOne() throws Exception {
        Grant grant = hold(five, locks.lock("k"));
        for (long lease = 30_000; lease < 30_010; lease++) {
            int first = (int) (lease % 4);
            proxies.subList(first, first + 2).forEach(proxy -> proxy.inject("reset-request", "LOCK.RENEW"));
            CompletableFuture<Void> checked = grant.checkAsync();
            grant.extend(Duration.ofMillis(lease));
            checked.get();
            List<Long> wanted = Collections.nCopies(5, lease);
            eventually("the lease", () -> leases().equals(wanted));
            Thread.sleep(50); // what is late would be there by then
            assertEquals(wanted, leases());
        }
        grant.release();
        free(five, "k");
    }

    /** The answers of a minority come too late for the attempt, which would release what they have. */
    @Test
    void anAttemptReleasesNothingBehindARenewal() throws Exception {
        hold(five, locks.lock("k")).release();
        free(five, "k");
        proxies.subList(0, 2).forEach(proxy -> proxy.inject(Map.of("delay", 700), "RAISE"));
        Grant grant = locks.lock("k").acquire();
        eventually("all have it", () -> standing(five, grant) == 5);
        grant.extend(Duration.ofSeconds(30));
        Thread.sleep(900); // the time for an answer is over, and the servers are back
        assertEquals(5, standing(five, grant));
        assertEquals(Collections.nCopies(5, 30_000L), leases());
        grant.release();
        free(five, "k");
    }
}
