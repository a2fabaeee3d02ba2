package io.github.redislock.lettuce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.Locks;
import io.github.redislock.TestBed;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.metrics.CommandLatencyRecorder;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.resource.ClientResources;
import java.net.SocketAddress;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Lettuce records the latency of each command, for as long as the application lives. */
class LatenciesTest extends TestBed {
    private final Map<ProtocolKeyword, String> recorded = new ConcurrentHashMap<>();

    @Test
    void aCommandIsOneHoweverOftenItIsSent() throws Exception {
        ClientResources resources = ClientResources.builder().commandLatencyRecorder(new Recorder()).build();
        closing(() -> resources.shutdown(0, 1, TimeUnit.SECONDS));
        RedisClient client = RedisClient.create(resources);
        closing(() -> client.shutdown(0, 1, TimeUnit.SECONDS));
        RedisURI uri = RedisURI.create("127.0.0.1", start().port);
        Locks locks = closing(Locks.builder(LettuceServer.of(client, uri)).build());
        for (int n = 0; n < 10; n++) {
            locks.get("lock:" + n).lock().release();
        }
        Set<String> names = Set.copyOf(recorded.values());
        assertTrue(names.containsAll(Set.of("LOCK.ACQUIRE", "LOCK.RELEASE")), names::toString);
        assertEquals(names.size(), recorded.size(), recorded::toString);
    }

    private final class Recorder implements CommandLatencyRecorder {
        @Override
        public void recordCommandLatency(SocketAddress local, SocketAddress remote, ProtocolKeyword command, long first,
                long completed) {
            recorded.put(command, command.toString());
        }
    }
}
