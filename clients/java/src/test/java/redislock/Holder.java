package redislock;

import java.time.Duration;

/** A process that takes a lock, and says so. */
final class Holder {
    private Holder() {}

    public static void main(String[] arguments) throws Exception {
        Client client = Client.valueOf(arguments[0]);
        int port = Integer.parseInt(arguments[1]);
        client.connect(Client.Topology.SINGLE, port, Duration.ofMillis(1500)).locks().lock("k");
        System.out.println("held");
        Thread.sleep(Long.MAX_VALUE);
    }
}
