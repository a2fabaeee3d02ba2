import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * Contenders for locks on one server, as benches/src/contenders/mod.rs describes them. The ways of locking are client,
 * commands, baton, rlock, rfair; for shares client-, commands- or redisson- with threads, calls or permits.
 */
public final class Main {
    private final String way;
    private final List<Way.Handle> handles;
    private final int heldMs;
    private volatile long began;
    private volatile boolean over;

    private Main(String[] arguments) {
        way = arguments[1];
        int contenders = Integer.parseInt(arguments[3]);
        int locks = Integer.parseInt(arguments[4]);
        heldMs = Integer.parseInt(arguments[5]);
        Way of = Way.named(way, Integer.parseInt(arguments[0]), contenders, Integer.parseInt(arguments[6]));
        handles = IntStream.range(0, contenders)
                .mapToObj(number -> of.handle(arguments[2] + ":" + number % locks))
                .toList();
    }

    public static void main(String[] arguments) throws Exception {
        Locale.setDefault(Locale.ROOT);
        Main contest = new Main(arguments);
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(contest.turn(Double.parseDouble(line)));
        }
        System.exit(0);
    }

    /** Runs one turn, and gives the contenders' times as JSON. */
    private String turn(double seconds) throws InterruptedException {
        over = false;
        List<Contender> all = IntStream.range(0, handles.size()).mapToObj(Contender::new).toList();
        began = System.nanoTime();
        all.forEach(Thread::start);
        Thread.sleep((long) (seconds * 1000));
        over = true;
        double lasted = now() / 1e9;
        for (Contender contender : all) {
            contender.join();
        }
        return String.format("{\"began\":%d,\"seconds\":%.6f,\"errors\":%d,\"times\":%s,\"alone\":%s}",
                began, lasted, all.stream().mapToLong(contender -> contender.errors).sum(),
                lists(all, contender -> contender.times),
                way.contains("-") ? lists(all, contender -> contender.alone) : "[]");
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
        private long errors;
        /** Of each grant: when it asked, had the grant, and sent the release. */
        private final LongStream.Builder times = LongStream.builder();
        /** Of each grant, whether it had the lock alone. */
        private final LongStream.Builder alone = LongStream.builder();

        Contender(int number) {
            this.number = number;
        }

        @Override
        public void run() {
            for (long call = 0; !over; call++) {
                boolean writes = Way.writes(way, number, call);
                try {
                    long asked = now();
                    AutoCloseable release = handles.get(number).take(writes);
                    long granted = now();
                    if (heldMs > 0) {
                        Thread.sleep(heldMs);
                    }
                    times.add(asked).add(granted).add(now());
                    alone.add(writes ? 1 : 0);
                    release.close();
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
