import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Holds a lock of Redisson as it ships: without a lease given, its watchdog renews one of 30 seconds.
 */
final class Watchdog {
    private Watchdog() {}

    /** Says "held", and holds the lock until the process is killed. */
    static void hold(String port, String key) throws InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        RedissonClient client = Redisson.create(config);
        client.getLock(key).lock();
        System.out.println("held");
        Thread.sleep(Long.MAX_VALUE);
    }
}
