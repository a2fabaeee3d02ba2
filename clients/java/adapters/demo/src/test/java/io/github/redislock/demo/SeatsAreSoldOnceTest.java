package io.github.redislock.demo;

import static io.github.redislock.TestServer.within;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.redislock.TestServer;
import io.github.redislock.TestServers;
import java.io.IOException;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.h2.tools.Server;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Two instances under load, of which one is killed: each seat is sold once, and none is left. */
class SeatsAreSoldOnceTest {
    private static final int SEATS = 40;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int BUYERS = 5;

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private TestServer redis;
    private String url;
    private JdbcClient database;

    @BeforeEach
    void start() throws SQLException {
        redis = TestServers.start();
        open.push(() -> redis.order("end"));
        Server h2 = Server.createTcpServer("-tcpPort", "0", "-ifNotExists").start();
        open.push(h2::stop);
        url = "jdbc:h2:tcp://127.0.0.1:" + h2.getPort() + "/mem:seats;DB_CLOSE_DELAY=-1";
        database = JdbcClient.create(new DriverManagerDataSource(url, "sa", ""));
        open.push(() -> database.sql("SHUTDOWN").update());
    }

    @AfterEach
    void end() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private Instance instance(String... properties) throws IOException {
        List<String> all = new ArrayList<>(List.of(properties));
        all.add("spring.data.redis.port=" + redis.port);
        all.add("spring.datasource.url=" + url);
        Instance instance = new Instance(all);
        open.push(instance);
        return instance;
    }

    private int sold() {
        return database.sql("SELECT COUNT(*) FROM sales").query(Integer.class).single();
    }

    @Test
    void alsoWhenOneInstanceIsKilled() throws Exception {
        Instance one = instance();
        Instance two = instance();
        Map<Integer, Set<String>> told = new ConcurrentHashMap<>();
        // The first request of an instance takes long: the other could have sold everything meanwhile.
        assertThat(one.buy(1, "one-0")).isEqualTo(200);
        assertThat(two.buy(2, "two-0")).isEqualTo(200);
        told.put(1, Set.of("one-0"));
        told.put(2, Set.of("two-0"));
        AtomicInteger served = new AtomicInteger();
        AtomicInteger servedByTwo = new AtomicInteger();
        ExecutorService buyers = Executors.newFixedThreadPool(2 * BUYERS);
        open.push(buyers::shutdownNow);
        List<Future<?>> all = new ArrayList<>();
        for (Instance instance : List.of(one, two)) {
            for (int n = 0; n < BUYERS; n++) {
                String buyer = (instance == one ? "one-" : "two-") + n;
                all.add(buyers.submit((Callable<Void>) () -> {
                    for (int seat = 3; seat <= SEATS; seat++) { // all want the same seat at the same time
                        int status;
                        try {
                            status = instance.buy(seat, buyer);
                        } catch (IOException e) {
                            if (instance == one) {
                                return null; // it was killed
                            }
                            throw e;
                        }
                        assertThat(status).as(() -> instance.log()).isIn(200, 409, 503);
                        if (status == 200) {
                            told.computeIfAbsent(seat, any -> ConcurrentHashMap.newKeySet()).add(buyer);
                        }
                        seat -= status == 503 ? 1 : 0; // once more
                        served.incrementAndGet();
                        servedByTwo.addAndGet(instance == two ? 1 : 0);
                    }
                    return null;
                }));
            }
        }
        within(PATIENCE, "a third is sold", () -> sold() >= SEATS / 3 || all.stream().anyMatch(Future::isDone));
        within(PATIENCE, "the first has a lock", () -> holdsOne(one));
        one.kill();
        int before = servedByTwo.get();
        within(PATIENCE, "the second goes on", () -> servedByTwo.get() > before + BUYERS);
        for (Future<?> buyer : all) {
            buyer.get();
        }
        System.out.println(served + " requests, " + sold() + " seats sold, by the first instance " + buyersOf("one-"));
        assertEachSeatOnce(told);
        assertThat(buyersOf("one-")).isPositive();
        assertThat(buyersOf("two-")).isPositive();
        assertThat(two.get("/actuator/health")).contains("UP");
        assertThat(two.get("/actuator/metrics/redis.lock.acquire")).contains("acquired");
        two.stop();
        assertThat(holdsOne(two)).as("a shutdown leaves no lock").isFalse();
        // What the first one had when it was killed ends with its lease, where nobody wanted it any more.
        within(PATIENCE, "no lock is left", () -> redis.run("KEYS lock:*") instanceof List<?> keys && keys.isEmpty());
    }

    private boolean holdsOne(Instance instance) {
        for (int seat = 1; seat <= SEATS; seat++) {
            Object owner = redis.info("lock:seat:" + seat, "owner");
            if (owner != null && owner.toString().contains(":" + instance.pid() + ":")) {
                return true;
            }
        }
        return false;
    }

    private int buyersOf(String instance) {
        return database.sql("SELECT COUNT(*) FROM sales WHERE buyer LIKE ?").param(instance + "%")
                .query(Integer.class).single();
    }

    /** Nobody was told of a seat that is not his; a buyer may have been killed before he was told. */
    private void assertEachSeatOnce(Map<Integer, Set<String>> told) {
        assertThat(sold()).isEqualTo(SEATS);
        assertThat(database.sql("SELECT COUNT(DISTINCT seat) FROM sales").query(Integer.class).single()).isEqualTo(SEATS);
        told.forEach((seat, buyers) -> assertThat(database.sql("SELECT buyer FROM sales WHERE seat = ?").param(seat)
                .query(String.class).list()).containsExactlyElementsOf(buyers));
    }

    /** The test above can fail: the same code sells seats twice where it takes no locks. */
    @Test
    void withoutLocksTheyAreSoldTwice() throws Exception {
        Instance one = instance("seats.locked=false");
        Instance two = instance("seats.locked=false");
        ExecutorService buyers = Executors.newFixedThreadPool(2);
        open.push(buyers::shutdownNow);
        for (int seat = 1; seat <= SEATS; seat++) {
            int wanted = seat;
            Future<Integer> first = buyers.submit(() -> one.buy(wanted, "ann"));
            Future<Integer> second = buyers.submit(() -> two.buy(wanted, "bob"));
            first.get();
            second.get();
        }
        assertThat(sold()).isGreaterThan(SEATS);
    }
}
