import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** Contenders that take a lock, hold it, give it back and rest, over and over, until their turn is over. */
final class Contest {
    private final Shares shares;
    private final List<Way.Handle> handles;
    private final int heldMs;
    private volatile long began;
    private volatile boolean over;

    Contest(int port, String way, int contenders, int locks, int heldMs) {
        this.heldMs = heldMs;
        shares = Shares.named(way);
        Way of = Way.named(way, port, contenders);
        handles = IntStream.range(0, contenders)
                .mapToObj(number -> of.handle("contest:" + way + ":" + number % locks))
                .toList();
    }

    /** Runs one turn, and gives the contenders' times as JSON. */
    String turn(double seconds) throws InterruptedException {
        CountDownLatch start = new CountDownLatch(1);
        over = false;
        List<Contender> all = IntStream.range(0, handles.size())
                .mapToObj(number -> new Contender(number, start))
                .toList();
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
        return String.format("{\"began\":%d,\"seconds\":%.6f,\"errors\":%d,\"times\":%s,\"alone\":%s}",
                began, lasted, errors, lists(all, contender -> contender.times),
                shares == Shares.NONE ? "[]" : lists(all, contender -> contender.alone));
    }

    private static String lists(List<Contender> all, Function<Contender, LongStream.Builder> list) {
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
        private final CountDownLatch start;
        private long errors;
        /** When it asked, had the grant, and sent the release, over and over. */
        private final LongStream.Builder times = LongStream.builder();
        /** Of each grant, whether it had the lock alone. */
        private final LongStream.Builder alone = LongStream.builder();

        Contender(int number, CountDownLatch start) {
            this.number = number;
            this.start = start;
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
                    Way.Release release = handles.get(number).take(writes);
                    long granted = now();
                    if (heldMs > 0) {
                        Thread.sleep(heldMs);
                    }
                    times.add(asked).add(granted).add(now());
                    alone.add(writes ? 1 : 0);
                    release.run();
                    if (heldMs > 0) {
                        Thread.sleep(heldMs);
                    }
                } catch (Exception problem) {
                    errors++;
                    System.err.println(problem);
                }
            }
        }
    }
}
