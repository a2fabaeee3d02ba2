package io.github.redislock.testing;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Locks with the same API, in memory, without a server:
 *
 * <pre>{@code
 * StandIn standIn = new StandIn(); // one for each test
 * try (Locks locks = Locks.of(standIn.server(), "orders")) {
 *     Grant grant = locks.get("lock:orders:42").lock();
 *     System.out.println(standIn.holders("lock:orders:42")); // 1
 *     standIn.lose("lock:orders:42"); // what does the program do now?
 * }
 * }</pre>
 *
 * <p>Waiters get a lock first come, first served. Tokens rise, and fixed leases end by time. Deadlocks are not found.
 */
public final class StandIn {
    private static final Reply NO_SESSION = Reply.of(Fault.reply("NOSESSION it has ended"));

    /** A grant, or a wait, which has no token. */
    private static final class Call {
        final String key;
        final String owner;
        long limit;
        long token;
        long holds;
        long lease;
        long session;
        long until; // of the wait, or of the lease

        Call(String key, String owner) {
            this.key = key;
            this.owner = owner;
        }
    }

    private final class Node implements ServerNode, ServerConnection {
        @Override
        public String address() {
            return "stand-in";
        }

        @Override
        public List<Reply> call(long limit, List<String[]> commands) {
            return send(limit, commands);
        }

        @Override
        public List<Reply> send(long limit, List<String[]> commands) {
            return commands.stream().map(StandIn.this::answer).toList();
        }

        @Override
        public ServerConnection connection() {
            return new Node();
        }

        @Override
        public void close() {
            // Nothing is open.
        }
    }

    private final Map<Long, List<Object>> sessions = new HashMap<>(); // their events that no POLL has answered
    private List<Call> calls = new ArrayList<>(); // in their order; of each key the holders, then the waiters
    private long lastToken;
    private long lastNumber; // of a session or an event

    /** For {@code Locks.of}; for any number of clients. */
    public LockServer server() {
        return new Node();
    }

    /**
     * Ends all grants of a key as an operator's DEL does: the holders are notified, and the first waiter gets the lock.
     * Returns false if nobody holds the lock.
     */
    public synchronized boolean lose(String key) {
        return end("deleted", call -> call.key.equals(key) && call.token > 0) > 0;
    }

    /** How many hold the lock of a key, which is given with the prefix of the locks. */
    public int holders(String key) {
        return count(key, true);
    }

    /** How many wait for the lock of a key. */
    public int waiters(String key) {
        return count(key, false);
    }

    private synchronized int count(String key, boolean hasToken) {
        expire();
        return (int) calls.stream().filter(call -> call.key.equals(key) && call.token > 0 == hasToken).count();
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    /** Ends the waits, and the grants outside of sessions, whose time is over. */
    private void expire() {
        long now = now();
        end("expired", call -> (call.token == 0 || call.session == 0) && now > call.until);
    }

    /** Ends all calls that are over, and returns how many. The end of a grant is a loss if there is a reason. */
    private int end(@Nullable String reason, Predicate<Call> isOver) {
        List<Call> before = calls;
        calls = new ArrayList<>(before.stream().filter(isOver.negate()).toList());
        before.stream().filter(isOver).forEach(call -> {
            if (call.token == 0) {
                report(call, "ended", "timeout");
            } else if (reason != null) {
                report(call, "lost", call.token, reason);
            }
        });
        pass(null);
        return before.size() - calls.size();
    }

    /** Grants each lock to those at the front of its line who have room. The call that asks has its reply, and no event. */
    private void pass(@Nullable Call asking) {
        Map<String, Integer> before = new HashMap<>();
        Map<String, Long> limit = new HashMap<>(); // the lowest
        for (Call call : calls) {
            if (before.merge(call.key, 1, Integer::sum) <= limit.merge(call.key, call.limit, Math::min) && call.token == 0) {
                lastToken = Math.max(lastToken + 1, System.currentTimeMillis() * 1000);
                call.token = lastToken;
                call.holds = 1;
                call.until = now() + call.lease;
                if (call != asking) {
                    report(call, "granted", call.token, call.holds, call.lease);
                }
            }
        }
    }

    private void report(Call call, String kind, Object... details) {
        List<Object> events = sessions.get(call.session);
        if (events != null) {
            List<Object> event = new ArrayList<>(List.of(++lastNumber, kind, call.key, call.owner));
            event.addAll(List.of(details));
            events.add(event);
            notifyAll();
        }
    }

    private synchronized Reply answer(String[] words) {
        expire();
        Map<String, Long> options = new HashMap<>(); // the words with the numbers behind them, or 0
        for (int i = 1; i < words.length; i++) {
            boolean hasNumber = i + 1 < words.length && words[i + 1].matches("\\d{1,18}");
            options.put(words[i], hasNumber ? Long.parseLong(words[i + 1]) : 0);
        }
        long session = options.getOrDefault("SESSION", 0L);
        if (words[0].equals("LOCK.SESSION")) {
            return session(words[1], options.getOrDefault(words[1], 0L), options.getOrDefault("BLOCK", 0L));
        }
        if (session > 0 && !sessions.containsKey(session)) {
            return NO_SESSION;
        }
        Call known = calls.stream().filter(call -> call.key.equals(words[1])) // FENCE names the token
                .filter(call -> call.owner.equals(words[2]) || String.valueOf(call.token).equals(words[2]))
                .findFirst().orElse(null);
        Long token = options.get("TOKEN");
        long raised = options.getOrDefault("RAISE", 0L);
        if (known == null && words[0].equals("LOCK.ACQUIRE") && token == null) {
            return acquire(new Call(words[1], words[2]), options);
        }
        if (known == null || token != null && token != known.token && raised != known.token) {
            return Reply.of(Fault.reply("NOTHELD the stand-in has no such grant"));
        }
        switch (words[0]) {
            case "LOCK.ACQUIRE" -> known.holds = known.token == 0 ? 0 : Math.max(known.holds, options.get("HOLDS"));
            case "LOCK.RELEASE" -> {
                known.holds = Math.min(known.holds, options.getOrDefault("HOLDS", 0L));
                end(null, call -> call == known && call.holds == 0);
                return Reply.of(known.holds);
            }
            case "LOCK.RENEW" -> {
                known.lease = options.getOrDefault("PX", known.lease);
                if (options.containsKey("SESSION") && session != known.session) {
                    report(known, "taken", known.token, session);
                    known.session = session;
                }
                known.until = now() + known.lease;
                known.token = Math.max(known.token, raised);
                lastToken = Math.max(lastToken, raised);
            }
            default -> { } // FENCE
        }
        return state(known);
    }

    private Reply acquire(Call call, Map<String, Long> options) {
        call.limit = options.containsKey("SHARED") ? Long.MAX_VALUE : Math.max(1, options.getOrDefault("LIMIT", 1L));
        call.lease = options.get("PX");
        call.session = options.getOrDefault("SESSION", 0L);
        long wait = options.getOrDefault("QUEUE", -1L);
        call.until = wait <= 0 ? Long.MAX_VALUE : now() + wait;
        calls.add(call);
        pass(call);
        boolean isBusy = call.token == 0 && wait < 0 && calls.remove(call);
        return isBusy ? Reply.of((Object) null) : state(call);
    }

    /** A grant, or the place in line. */
    private Reply state(Call call) {
        return Reply.of(call.token == 0 ? calls.indexOf(call) : List.of(call.token, call.holds, 0L, call.lease));
    }

    private Reply session(String what, long session, long block) {
        if (what.equals("OPEN")) {
            sessions.put(++lastNumber, new ArrayList<>());
            return Reply.of(lastNumber);
        }
        if (!sessions.containsKey(session)) {
            return NO_SESSION;
        }
        if (what.equals("CLOSE")) {
            end(null, call -> call.session == session);
            sessions.remove(session);
            return Reply.of(1L);
        }
        return poll(session, now() + block);
    }

    /** Waits until there are events, and looks now and then whether times are over. */
    private Reply poll(long session, long end) {
        try {
            while (sessions.containsKey(session) && sessions.get(session).isEmpty() && now() < end) {
                wait(Math.max(1, Math.min(10, end - now())));
                expire();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        List<Object> events = sessions.replace(session, new ArrayList<>());
        return events == null ? NO_SESSION : Reply.of(List.of("sure-ms", -1L, "grants", 0L, "events", events));
    }
}
