import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.github.redislock.Grant;
import io.github.redislock.LockBusyException;
import io.github.redislock.LockDeadlockException;
import io.github.redislock.LockLostException;
import io.github.redislock.LockMisuseException;
import io.github.redislock.LockNotAloneException;
import io.github.redislock.LockRefusedException;
import io.github.redislock.Locks;
import io.github.redislock.RedisLock;
import io.github.redislock.Task;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** Does what lines of JSON ask for, and answers each by a line. With LETTUCE=1 by Lettuce, else by Jedis. */
public final class Worker {
    /** A server with its locks. The lease is one of all locks of a session, so those of another lease are others. */
    private record Site(LockServer server, String service, Duration reply, Map<List<Long>, Locks> locks) {
        Locks of(long leaseMs, long silenceMs) {
            List<Long> which = silenceMs == 0 ? List.of(10_000L, 30_000L) : List.of(leaseMs, silenceMs); // fixed
            return locks.computeIfAbsent(which, it -> Locks.builder(server).service(service).replyTimeout(reply)
                    .lease(Duration.ofMillis(it.get(0))).silence(Duration.ofMillis(it.get(1))).build());
        }
    }

    private final Map<String, Site> opened = new ConcurrentHashMap<>();
    private final Map<String, Task> tasks = new ConcurrentHashMap<>();
    private final Map<Long, Grant> grants = new ConcurrentHashMap<>();
    private final Map<Long, Thread> calls = new ConcurrentHashMap<>();
    private final AtomicLong numbers = new AtomicLong();

    private Worker() {}

    /** What one line asks for. */
    private interface Work {
        Map<String, ?> answer() throws InterruptedException;
    }

    public static void main(String[] arguments) {
        Worker worker = new Worker();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            JsonObject request = new Gson().fromJson(lines.nextLine(), JsonObject.class);
            worker.start(request, () -> worker.carryOut(request));
        }
        Runtime.getRuntime().halt(0); // without releasing
    }

    /** Each line has a thread. The interrupt that cancels a call comes before the next line is read. */
    private void start(JsonObject request, Work work) {
        long id = request.get("id").getAsLong();
        Thread thread = new Thread(() -> {
            Map<String, ?> answer;
            try {
                answer = work.answer();
            } catch (InterruptedException e) {
                answer = Map.of("error", "cancelled", "text", "interrupted");
            } catch (RuntimeException e) {
                answer = Map.of("error", name(e), "text", String.valueOf(e.getMessage()));
            }
            calls.remove(id);
            JsonObject line = new Gson().toJsonTree(answer).getAsJsonObject();
            line.addProperty("id", id);
            print(line);
        });
        calls.put(id, thread);
        thread.start();
    }

    private Map<String, ?> carryOut(JsonObject request) throws InterruptedException {
        Map<String, ?> ok = Map.of("ok", true);
        switch (request.get("do").getAsString()) {
            case "open" -> {
                opened.put(request.get("name").getAsString(), open(request));
                return ok;
            }
            case "acquire" -> {
                return acquire(request);
            }
            case "cancel" -> {
                Thread call = calls.get(request.get("call").getAsLong());
                if (call != null) {
                    call.interrupt();
                }
                return ok;
            }
            case "release" -> {
                grant(request).release();
                return ok;
            }
            case "check" -> {
                grant(request).check();
                return Map.of("ok", true, "held", true);
            }
            case "stall" -> {
                Thread.sleep(request.get("ms").getAsLong());
                return ok;
            }
            case "close" -> {
                opened.get(request.get("locks").getAsString()).locks.values().forEach(Locks::close);
                return ok;
            }
            default -> {
                return Map.of("error", "unsupported");
            }
        }
    }

    private Grant grant(JsonObject request) {
        return grants.get(request.get("grant").getAsLong());
    }

    private Map<String, ?> acquire(JsonObject request) throws InterruptedException {
        long leaseMs = request.get("lease_ms").getAsLong();
        long keepMs = request.get("keep_ms").getAsLong();
        Locks locks = opened.get(request.get("locks").getAsString()).of(leaseMs, keepMs);
        RedisLock lock = locks.get(request.get("key").getAsString());
        JsonElement mode = request.get("mode");
        if (mode.isJsonObject()) {
            lock = lock.permits(mode.getAsJsonObject().get("limit").getAsInt());
        } else if (mode.getAsString().equals("shared")) {
            lock = lock.shared();
        }
        if (keepMs == 0) {
            lock = lock.fixed(Duration.ofMillis(leaseMs));
        }
        if (request.has("task") && !request.get("task").isJsonNull()) {
            String task = request.get("locks").getAsString() + " " + request.get("task").getAsString();
            lock = lock.by(tasks.computeIfAbsent(task, name -> locks.task()));
        }
        long wait = request.get("wait_ms").getAsLong();
        Grant grant = (wait < 0 ? lock : lock.waiting(Duration.ofMillis(wait))).lockInterruptibly();
        long number = numbers.incrementAndGet();
        grants.put(number, grant);
        grant.onLost(why -> print(Map.of("event", "lost", "grant", number)));
        return Map.of("grant", number, "token", grant.token(), "owner", grant.owner());
    }

    private static Site open(JsonObject request) {
        JsonObject at = request.getAsJsonObject("server");
        String password = request.has("password") && !request.get("password").isJsonNull()
                ? request.get("password").getAsString() : null;
        LockServer server = System.getenv("LETTUCE") != null ? byLettuce(at, password) : byJedis(at, password);
        return new Site(server, request.get("service").getAsString(),
                Duration.ofMillis(request.get("reply_ms").getAsLong()), new ConcurrentHashMap<>());
    }

    private static LockServer byJedis(JsonObject at, String password) {
        JedisClientConfig config = DefaultJedisClientConfig.builder().password(password).build();
        if (at.has("cluster")) {
            return JedisServer.cluster(addresses(at, "cluster"), config);
        }
        if (at.has("sentinels")) {
            return JedisServer.sentinel(at.get("master").getAsString(), addresses(at, "sentinels"), config,
                    DefaultJedisClientConfig.builder().build());
        }
        URI url = URI.create(at.get("url").getAsString());
        return JedisServer.of(new HostAndPort(url.getHost(), url.getPort()), config);
    }

    private static List<HostAndPort> addresses(JsonObject at, String name) {
        return at.getAsJsonArray(name).asList().stream().map(node -> HostAndPort.from(node.getAsString())).toList();
    }

    private static LockServer byLettuce(JsonObject at, String password) {
        RedisURI.Builder uri;
        if (at.has("sentinels")) {
            uri = RedisURI.builder().withSentinelMasterId(at.get("master").getAsString());
            for (HostAndPort node : addresses(at, "sentinels")) {
                uri.withSentinel(node.getHost(), node.getPort());
            }
        } else if (at.has("cluster")) {
            HostAndPort node = addresses(at, "cluster").get(0);
            uri = RedisURI.builder().withHost(node.getHost()).withPort(node.getPort());
        } else {
            uri = RedisURI.builder(RedisURI.create(at.get("url").getAsString()));
        }
        if (password != null) {
            uri.withPassword(password.toCharArray());
        }
        return at.has("cluster") ? LettuceServer.of(RedisClusterClient.create(uri.build()))
                : LettuceServer.of(RedisClient.create(), uri.build());
    }

    private static String name(Throwable error) {
        return error instanceof LockBusyException ? "busy"
                : error instanceof LockLostException ? "lost"
                : error instanceof LockDeadlockException ? "deadlock"
                : error instanceof LockNotAloneException ? "not-alone"
                : error instanceof LockRefusedException ? "refused"
                : error instanceof LockMisuseException ? "misuse"
                : "unavailable";
    }

    private static synchronized void print(Object line) {
        System.out.println(new Gson().toJson(line));
        System.out.flush();
    }
}
