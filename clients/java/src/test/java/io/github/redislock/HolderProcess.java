package io.github.redislock;

import java.time.Duration;

/** A process that takes a lock, and says so. */
final class HolderProcess {
    private HolderProcess() {}

    public static void main(String[] arguments) throws Exception {
        Client client = Client.valueOf(arguments[0]);
        int port = Integer.parseInt(arguments[1]);
        Locks.Builder builder = Locks.builder(client.connect(Client.Topology.SINGLE, port, null).server())
                .service("tests").lease(Duration.ofMillis(1500))
                .replyTimeout(Duration.ofSeconds(20)); // a cold JVM
        if (arguments[2].equals("exit")) {
            builder.closeAtExit();
        }
        Locks locks = builder.build();
        locks.lock("k").acquire();
        System.out.println("held");
        Thread.sleep(Long.MAX_VALUE);
    }
}
