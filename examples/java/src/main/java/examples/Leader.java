package examples;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import java.net.URI;
import java.time.Duration;

/** Several processes run, and one leads. When it dies, another one does, a lease later. */
public class Leader {
    static final URI SERVER = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379"));

    /** Is interrupted when the lock is lost: it stops, because somebody else leads. */
    static Void work(Grant grant) throws InterruptedException {
        System.out.println("leading, with token " + grant.token());
        while (true) {
            Thread.sleep(100);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        var server = JedisServer.of(SERVER.getHost(), SERVER.getPort());
        try (Locks locks = Locks.builder(server).service("worker").lease(Duration.ofSeconds(3)).build()) {
            locks.get("lock:leader").lead(Leader::work);
        }
    }
}
