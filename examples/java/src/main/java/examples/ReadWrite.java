package examples;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import java.net.URI;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Readers share a lock, and a writer is alone. */
public class ReadWrite {
    static final URI SERVER = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379"));
    static final int READERS = 5;

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(READERS);
        try (Locks locks = Locks.of(JedisServer.of(SERVER.getHost(), SERVER.getPort()), "catalogue")) {
            CyclicBarrier all = new CyclicBarrier(READERS);
            List<Future<Integer>> readers = threads.invokeAll(Collections.nCopies(READERS, () -> {
                try (Grant grant = locks.get("lock:catalogue").shared().lock()) {
                    return all.await(); // all readers are inside at the same time
                }
            }));
            for (Future<Integer> reader : readers) {
                reader.get();
            }
            System.out.println(READERS + " readers at a time");

            try (Grant writer = locks.get("lock:catalogue").lock()) {
                boolean isAlone = locks.get("lock:catalogue").shared().tryLock().isEmpty();
                System.out.println(isAlone ? "the writer is alone" : "the writer is not alone");
            }
        } finally {
            threads.shutdown();
        }
    }
}
