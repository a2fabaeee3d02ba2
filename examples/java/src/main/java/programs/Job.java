package programs;

import io.github.redislock.Grant;
import io.github.redislock.LockLostException;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Runs once, however many processes are started for a run: who comes later finds it done, and who
 * comes after a process that was killed goes on behind its last step.
 */
final class Job {
    private static final String FINISH_STEP = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
            if ARGV[4] == '1' then redis.call('SET', KEYS[4], ARGV[3]) end
            """;

    private final Redis redis;
    private final String name;
    private final String run;
    private final long steps;
    private final long stepMs;
    private int done;
    private Map<String, Object> end;

    private Job(Redis redis, Main.Options options) {
        this.redis = redis;
        name = options.text("name");
        run = "{job}:" + options.text("run");
        steps = options.number("steps");
        stepMs = options.number("step-ms");
    }

    static Map<String, Object> run(Redis redis, Main.Options options) throws Exception {
        Job job = new Job(redis, options);
        try {
            redis.locks().get("lock:{job}").waiting(Duration.ofMinutes(1)).call(grant -> job.end = job.work(grant));
        } catch (LockLostException e) {
            if (job.end == null) {
                return Map.of("job", "lost", "steps", job.done);
            }
            // All was done before the lock was lost.
        }
        return job.end;
    }

    private Map<String, Object> work(Grant lock) throws InterruptedException {
        List<String> keys = List.of("lock:{job}", run + ":step", run + ":log", run + ":done");
        if (redis.exists(keys.get(3))) {
            return Map.of("job", "skipped");
        }
        String before = redis.get(keys.get(1));
        for (long step = before == null ? 1 : Long.parseLong(before) + 1; step <= steps; step++) {
            Thread.sleep(stepMs); // interrupted when the lock is lost
            lock.check();
            String who = lock.token() + " " + name;
            if (!redis.write(FINISH_STEP, keys, lock.token(), step, who, step == steps ? 1 : 0)) {
                return Map.of("job", "lost", "steps", done);
            }
            done++;
        }
        return Map.of("job", "completed", "steps", done);
    }
}
