package io.github.redislock;

import java.time.Duration;

/** Locks that reach their server through a proxy, which does harm to what passes. */
abstract class ProxiedTest extends LocksTest {
    TestServer server;
    TestServer proxy;
    Locks locks;

    void start(Duration lease) throws Exception {
        server = server();
        proxy = proxy(server);
        locks = locks(proxy.port, lease);
        locks.lock("warm").acquire(); // so that the keeper is open
    }
}
