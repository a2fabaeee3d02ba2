import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/** A turn of contenders that take a lock and give it back, over and over, until time is up. */
final class Contest {
    private final Shares shares;
    private final List<Contender> all = new ArrayList<>();
    private final CountDownLatch start = new CountDownLatch(1);
    private volatile long began;
    private volatile boolean over;

    Contest(Way way, Shares shares, int contenders, String[] keys) {
        this.shares = shares;
        for (int number = 0; number < contenders; number++) {
            all.add(new Contender(number, way.handle(keys[number % keys.length])));
        }
    }

    /** Runs it, and gives the contenders' times as JSON. */
    String run(double seconds) throws InterruptedException {
        all.forEach(Thread::start);
        began = System.nanoTime();
        start.countDown();
        Thread.sleep((long) (seconds * 1000));
        over = true;
        double lasted = now() / 1e9;
        long errors = 0;
        for (Contender contender : all) {
            contender.join();
            errors += contender.errors;
        }
        String times = lists(contender -> contender.times);
        String alone = shares == Shares.NONE ? "[]" : lists(contender -> contender.alone);
        return String.format("{\"seconds\":%.6f,\"errors\":%d,\"times\":%s,\"alone\":%s}",
                lasted, errors, times, alone);
    }

    private String lists(Function<Contender, LongStream.Builder> list) {
        return all.stream()
                .map(contender -> list.apply(contender).build().mapToObj(String::valueOf)
                        .collect(Collectors.joining(",", "[", "]")))
                .collect(Collectors.joining(",", "[", "]"));
    }

    /** The nanoseconds since the turn began. */
    private long now() {
        return System.nanoTime() - began;
    }

    private final class Contender extends Thread {
        private final int number;
        private final Way.Handle handle;
        private long errors;
        /** When it asked, had the grant, and sent the release, over and over. */
        private final LongStream.Builder times = LongStream.builder();
        /** Of each grant, whether it had the lock alone. */
        private final LongStream.Builder alone = LongStream.builder();

        Contender(int number, Way.Handle handle) {
            this.number = number;
            this.handle = handle;
        }

        @Override
        public void run() {
            try {
                start.await();
            } catch (InterruptedException interrupted) {
                return;
            }
            for (long call = 0; !over; call++) {
                boolean writes = shares.writes(number, call);
                try {
                    long asked = now();
                    Way.Release release = handle.take(writes);
                    times.add(asked).add(now()).add(now());
                    alone.add(writes ? 1 : 0);
                    release.run();
                } catch (Exception problem) {
                    errors++;
                    System.err.println(problem);
                }
            }
        }
    }
}
