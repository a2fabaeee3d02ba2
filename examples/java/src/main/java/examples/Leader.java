package examples;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import java.net.URI;
import java.time.Duration;

/** Several processes run, and one leads. When it is stopped, another one does at once; when it dies, a lease later. */
public class Leader {
    static final URI SERVER = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379"));

    /** Is interrupted when the lock is lost: it stops, because somebody else leads. */
    static Void work(Grant grant) throws InterruptedException {
        System.out.println("leading, with token " + grant.token());
        while (true) {
            Thread.sleep(100);
        }
    }

    /** Runs when the process is stopped: the work ends, and then main closes the locks. */
    static void stop(Thread main) {
        main.interrupt();
        try {
            main.join();
        } catch (InterruptedException never) {
            throw new IllegalStateException(never);
        }
    }

    public static void main(String[] arguments) {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(main)));
        var server = JedisServer.of(SERVER.getHost(), SERVER.getPort());
        try (Locks locks = Locks.builder(server).service("worker").lease(Duration.ofSeconds(3)).build()) {
            locks.get("lock:leader").lead(Leader::work);
        } catch (InterruptedException stopped) {
            System.out.println("stopped");
        }
    }
}
