import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Function;
import java.util.stream.Collectors;

/** A turn of contenders that take a lock and give it back, over and over, until time is up. */
final class Contest {
    private final Way way;
    private final String[] keys;
    private final int contenders;
    /** When the last release of each lock was sent. */
    private final AtomicLongArray releases;
    private volatile boolean over;

    Contest(Way way, int contenders, String[] keys) {
        this.way = way;
        this.contenders = contenders;
        this.keys = keys;
        this.releases = new AtomicLongArray(keys.length);
    }

    /** Runs it, and gives its outcome as JSON. */
    String run(double seconds) throws InterruptedException {
        CountDownLatch start = new CountDownLatch(1);
        List<Contender> all = new ArrayList<>();
        for (int number = 0; number < contenders; number++) {
            Contender contender = new Contender(number, start);
            contender.start();
            all.add(contender);
        }
        long began = System.nanoTime();
        start.countDown();
        Thread.sleep((long) (seconds * 1000));
        over = true;
        double lasted = (System.nanoTime() - began) / 1e9;
        for (Contender contender : all) {
            contender.join();
        }
        return outcome(all, lasted);
    }

    private String outcome(List<Contender> all, double seconds) {
        String grants = all.stream().map(contender -> String.valueOf(contender.grants))
                .collect(Collectors.joining(","));
        long late = all.stream().mapToLong(contender -> contender.late).sum();
        long errors = all.stream().mapToLong(contender -> contender.errors).sum();
        String error = all.stream().map(contender -> contender.error)
                .filter(text -> text != null).findFirst().orElse("");
        if (!error.isEmpty()) {
            System.err.println(error);
        }
        return String.format(
                "{\"grants\":[%s],\"late\":%d,\"seconds\":%.6f,\"errors\":%d,\"hand_offs_us\":[%s],"
                        + "\"write_waits_us\":[%s],\"other_waits_us\":[%s]}",
                grants, late, seconds, errors, micros(all, contender -> contender.handOffs),
                micros(all, contender -> contender.writeWaits),
                micros(all, contender -> contender.otherWaits));
    }

    private static String micros(List<Contender> all, Function<Contender, Times> times) {
        return all.stream()
                .flatMapToLong(contender -> times.apply(contender).stream())
                .mapToObj(nanos -> String.valueOf(nanos / 1000.0))
                .collect(Collectors.joining(","));
    }

    private final class Contender extends Thread {
        private final int key;
        private final Way.Handle handle;
        private final CountDownLatch start;
        private long grants;
        /** Grants after the time was up: each contender that still waits gets one. */
        private long late;
        private long errors;
        private String error;
        private final Times handOffs = new Times();
        /** From the call to the grant, also of grants after the time was up: who starves gets no other. */
        private final Times writeWaits = new Times();
        private final Times otherWaits = new Times();
        private final int number;

        Contender(int number, CountDownLatch start) {
            this.number = number;
            this.key = number % keys.length;
            this.handle = way.handle(keys[key], number);
            this.start = start;
        }

        @Override
        public void run() {
            try {
                start.await();
            } catch (InterruptedException interrupted) {
                return;
            }
            boolean exclusive = way.shares() == Shares.NONE;
            for (long call = 0; !over; call++) {
                try {
                    long asked = exclusive ? 0 : System.nanoTime();
                    handle.acquire();
                    if (exclusive) {
                        granted(System.nanoTime());
                        releases.set(key, System.nanoTime());
                    } else {
                        waited(call, System.nanoTime() - asked);
                    }
                    handle.release();
                } catch (Exception problem) {
                    errors++;
                    error = problem.toString();
                }
            }
        }

        /** Only the holder of a lock reads or sets its last release. */
        private void granted(long now) {
            if (over) {
                late++;
                return;
            }
            grants++;
            long released = releases.get(key);
            if (released > 0) {
                handOffs.add(now - released);
            }
        }

        private void waited(long call, long nanos) {
            if (over) {
                late++;
            } else {
                grants++;
            }
            boolean writes = way.shares().writes(number, call);
            (writes ? writeWaits : otherWaits).add(nanos);
        }
    }
}
