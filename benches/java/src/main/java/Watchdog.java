import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Holds a lock of Redisson as it ships: without a lease given, its watchdog renews one of 30 seconds.
 * Arguments: the server's port, and the lock's name. Says "held", and holds it until it is killed.
 */
public final class Watchdog {
    private Watchdog() {}

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0]);
        RedissonClient client = Redisson.create(config);
        client.getLock(arguments[1]).lock();
        System.out.println("held");
        Thread.sleep(Long.MAX_VALUE);
    }
}
