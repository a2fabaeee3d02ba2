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
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** Does what lines of JSON ask for, and answers each by a line. With LETTUCE=1 by Lettuce, else by Jedis. */
public final class Worker {
    private final Map<String, Locks> opened = new ConcurrentHashMap<>();
    private final Map<String, Task> tasks = new ConcurrentHashMap<>();
    private final Map<Long, Grant> grants = new ConcurrentHashMap<>();
    private final Map<Long, Runnable> cancels = new ConcurrentHashMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final ExecutorService slow = Executors.newCachedThreadPool();

    private Worker() {}

    public static void main(String[] arguments) {
        Worker worker = new Worker();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            JsonObject request = new Gson().fromJson(lines.nextLine(), JsonObject.class);
            try {
                worker.take(request);
            } catch (RuntimeException e) {
                worker.fail(request, e);
            }
        }
        Runtime.getRuntime().halt(0); // without releasing
    }

    private void take(JsonObject request) {
        switch (request.get("do").getAsString()) {
            case "open" -> slow.execute(() -> {
                try {
                    Locks locks = open(request);
                    opened.put(request.get("name").getAsString(), locks);
                    warmUp(locks);
                    answer(request, Map.of("ok", true));
                } catch (RuntimeException e) {
                    fail(request, e);
                }
            });
            case "acquire" -> acquire(request);
            case "cancel" -> {
                Runnable cancel = cancels.get(request.get("call").getAsLong());
                if (cancel != null) {
                    cancel.run();
                }
                answer(request, Map.of("ok", true));
            }
            case "release" -> told(request, grant(request).releaseAsync(), Map.of("ok", true));
            case "check" -> told(request, grant(request).checkAsync(), Map.of("ok", true, "held", true));
            case "stall" -> slow.execute(() -> {
                try {
                    Thread.sleep(request.get("ms").getAsLong());
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                answer(request, Map.of("ok", true));
            });
            case "close" -> slow.execute(() -> {
                opened.get(request.get("locks").getAsString()).close();
                answer(request, Map.of("ok", true));
            });
            default -> answer(request, Map.of("error", "unsupported"));
        }
    }

    /** The first connection of a JVM takes its time: classes are loaded. */
    private static void warmUp(Locks locks) {
        try {
            locks.holders("none");
        } catch (RuntimeException e) {
            // It may be a part of the trial that nobody is there.
        }
    }

    private Grant grant(JsonObject request) {
        return grants.get(request.get("grant").getAsLong());
    }

    private void acquire(JsonObject request) {
        Locks locks = opened.get(request.get("locks").getAsString());
        String key = request.get("key").getAsString();
        JsonElement mode = request.get("mode");
        RedisLock lock = mode.isJsonObject() ? locks.permit(key, mode.getAsJsonObject().get("limit").getAsInt())
                : mode.getAsString().equals("shared") ? locks.shared(key) : locks.lock(key);
        Duration lease = Duration.ofMillis(request.get("lease_ms").getAsLong());
        long keep = request.get("keep_ms").getAsLong();
        lock = keep == 0 ? lock.fixed(lease) : lock.lease(lease).keep(Duration.ofMillis(keep));
        long wait = request.get("wait_ms").getAsLong();
        lock = wait < 0 ? lock.waitingForEver() : lock.waiting(Duration.ofMillis(wait));
        if (request.has("task") && !request.get("task").isJsonNull()) {
            lock = lock.by(tasks.computeIfAbsent(request.get("task").getAsString(), name -> locks.task()));
        }
        long id = request.get("id").getAsLong();
        if (wait == 0) {
            acquired(request, id, lock.acquireAsync());
            return;
        }
        // A wait by a thread: the interrupt that ends it comes back when it has been called off.
        RedisLock wanted = lock;
        CompletableFuture<Grant> call = new CompletableFuture<>();
        Thread waiting = new Thread(() -> {
            try {
                call.complete(wanted.acquire());
            } catch (InterruptedException e) {
                call.completeExceptionally(new CancellationException());
            } catch (RuntimeException e) {
                call.completeExceptionally(e);
            }
        });
        cancels.put(id, waiting::interrupt);
        acquired(request, id, call);
        waiting.start();
    }

    private void acquired(JsonObject request, long id, CompletableFuture<Grant> call) {
        cancels.putIfAbsent(id, () -> call.cancel(true));
        call.whenComplete((grant, failure) -> {
            cancels.remove(id);
            if (failure != null) {
                fail(request, failure);
                return;
            }
            long number = numbers.incrementAndGet();
            grants.put(number, grant);
            answer(request, Map.of("grant", number, "token", grant.token(), "owner", grant.owner()));
            grant.onLost(why -> print(Map.of("event", "lost", "grant", number)));
        });
    }

    private void told(JsonObject request, CompletableFuture<?> call, Map<String, Object> good) {
        call.whenComplete((done, failure) -> {
            if (failure == null) {
                answer(request, good);
            } else {
                fail(request, failure);
            }
        });
    }

    private static Locks open(JsonObject request) {
        JsonObject at = request.getAsJsonObject("server");
        String password = request.has("password") && !request.get("password").isJsonNull()
                ? request.get("password").getAsString() : null;
        LockServer server = System.getenv("LETTUCE") != null ? byLettuce(at, password) : byJedis(at, password);
        return Locks.builder(server).service(request.get("service").getAsString())
                .replyTimeout(Duration.ofMillis(request.get("reply_ms").getAsLong())).build();
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

    private void fail(JsonObject request, Throwable thrown) {
        Throwable error = thrown instanceof CompletionException && thrown.getCause() != null ? thrown.getCause() : thrown;
        answer(request, Map.of("error", name(error), "text", String.valueOf(error.getMessage())));
    }

    private static String name(Throwable error) {
        return error instanceof LockBusyException ? "busy"
                : error instanceof LockLostException ? "lost"
                : error instanceof LockDeadlockException ? "deadlock"
                : error instanceof LockNotAloneException ? "not-alone"
                : error instanceof LockRefusedException ? "refused"
                : error instanceof LockMisuseException ? "misuse"
                : error instanceof CancellationException ? "cancelled"
                : "unavailable";
    }

    private void answer(JsonObject request, Map<String, ?> fields) {
        JsonObject line = new Gson().toJsonTree(fields).getAsJsonObject();
        line.add("id", request.get("id"));
        print(line);
    }

    private static synchronized void print(Object line) {
        System.out.println(new Gson().toJson(line));
        System.out.flush();
    }
}
