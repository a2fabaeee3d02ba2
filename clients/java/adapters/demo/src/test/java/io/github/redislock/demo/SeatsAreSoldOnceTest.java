package io.github.redislock.demo;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.TestServer;
import io.github.redislock.TestServers;
import java.io.IOException;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.h2.tools.Server;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Two instances under load, of which one is killed: each seat is sold once, and none is left. */
class SeatsAreSoldOnceTest {
    private static final int SEATS = 40;
    private static final int BUYERS = 5;

    private final TestServer redis = TestServers.start();
    private final Server h2 = Server.createTcpServer("-tcpPort", "0", "-ifNotExists").start();
    private final String url = "jdbc:h2:tcp://127.0.0.1:" + h2.getPort() + "/mem:seats;DB_CLOSE_DELAY=-1";
    private final JdbcClient database = JdbcClient.create(new DriverManagerDataSource(url, "sa", ""));
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Instance> instances = new ArrayList<>();

    SeatsAreSoldOnceTest() throws SQLException {}

    @AfterEach
    void end() {
        threads.shutdownNow();
        instances.forEach(instance -> instance.process.destroyForcibly());
        h2.stop();
        redis.order("end");
    }

    private Instance instance(String... properties) throws IOException {
        Instance instance = new Instance(("--spring.data.redis.port=" + redis.port + " --spring.datasource.url=" + url + " "
                + String.join(" ", properties)).strip().split(" "));
        instances.add(instance);
        return instance;
    }

    private int count(String query) {
        return database.sql(query).query(Integer.class).single();
    }

    private boolean holdsALock(Instance instance) {
        return IntStream.rangeClosed(1, SEATS).mapToObj(seat -> redis.info("lock:seat:" + seat, "owner"))
                .anyMatch(owner -> owner != null && owner.toString().contains(":" + instance.process.pid() + ":"));
    }

    @Test
    void alsoIfOneInstanceIsKilled() throws Exception {
        Instance one = instance();
        Instance two = instance();
        assertThat(one.buy(1, "one-0")).isEqualTo(200); // the first request of an instance takes long
        assertThat(two.buy(2, "two-0")).isEqualTo(200);
        Map<Integer, String> told = new ConcurrentHashMap<>();
        List<Future<?>> all = new ArrayList<>();
        for (Instance instance : List.of(one, two)) {
            for (int n = 0; n < BUYERS; n++) {
                String buyer = (instance == one ? "one-" : "two-") + n;
                all.add(threads.submit(() -> {
                    for (int seat = 3; seat <= SEATS; seat++) { // all want the same seat at the same time
                        int status = instance.buy(seat, buyer);
                        assertThat(status).isIn(200, 409, 503);
                        if (status == 200) {
                            assertThat(told.put(seat, buyer)).isNull();
                        }
                        seat -= status == 503 ? 1 : 0; // once more
                    }
                    return true;
                }));
            }
        }
        eventually("some are sold", () -> count("SELECT COUNT(*) FROM sales") > SEATS / 5);
        eventually("the first has a lock", () -> holdsALock(one));
        one.process.destroyForcibly().waitFor(); // kill -9
        for (Future<?> buyer : all.subList(BUYERS, 2 * BUYERS)) {
            buyer.get();
        }
        assertThat(count("SELECT COUNT(*) FROM sales")).isEqualTo(SEATS);
        assertThat(count("SELECT COUNT(DISTINCT seat) FROM sales")).isEqualTo(SEATS);
        told.forEach((seat, buyer) -> assertThat(database.sql("SELECT buyer FROM sales WHERE seat = ?").param(seat)
                .query(String.class).list()).containsExactly(buyer));
        assertThat(two.send("/actuator/health", "GET").body()).contains("UP");
        assertThat(two.send("/actuator/metrics/redis_lock.client.acquire.duration", "GET").body()).contains("done");
        two.process.destroy(); // SIGTERM
        two.process.waitFor();
        assertThat(holdsALock(two)).as("a shutdown leaves no lock").isFalse();
        eventually("no lock is left", () -> ((List<?>) redis.run("KEYS lock:*")).isEmpty());
    }

    /** The test above can fail: without locks the same code sells seats twice. */
    @Test
    void withoutLocksTheyAreSoldTwice() throws Exception {
        Instance one = instance("--seats.locked=false", "--seats.payment=2s");
        Instance two = instance("--seats.locked=false", "--seats.payment=2s");
        int tried = 0; // the first requests of an instance may take longer than a payment
        while (tried < SEATS && count("SELECT COUNT(*) FROM sales") == tried) {
            int seat = ++tried;
            var first = threads.submit(() -> one.buy(seat, "ann"));
            two.buy(seat, "bob");
            first.get();
        }
        assertThat(count("SELECT COUNT(*) FROM sales")).isGreaterThan(tried);
    }
}
