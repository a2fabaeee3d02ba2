import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Locale;
import java.util.stream.IntStream;

/**
 * Contenders for locks on one server. Arguments: the server's port, and the way of locking (client,
 * commands, baton, rlock, rfair; for shares commands- or redisson- with threads, calls or permits, see
 * {@link Shares}).
 *
 * <p>The line "open contenders locks" connects, makes the locks free and is answered "ready". Each
 * line "run seconds" then is a turn of the contest, answered by a line of JSON. So whoever drives
 * several such programs can let them take short turns, and can measure the server around each.
 *
 * <p>With the arguments watchdog, the server's port and the name of a lock, it holds that lock instead.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Locale.setDefault(Locale.ROOT);
        if (arguments[0].equals("watchdog")) {
            Watchdog.hold(arguments[1], arguments[2]);
        }
        int port = Integer.parseInt(arguments[0]);
        try (Way way = Way.named(arguments[1], port)) {
            serve(way, arguments[1]);
        }
    }

    private static void serve(Way way, String name) throws IOException, InterruptedException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        int contenders = 0;
        String[] keys = {};
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("open")) {
                contenders = Integer.parseInt(words[1]);
                keys = IntStream.range(0, Integer.parseInt(words[2]))
                        .mapToObj(number -> "contest:" + name + ":" + number)
                        .toArray(String[]::new);
                way.prepare(contenders, keys);
                System.out.println("ready");
            } else {
                Contest contest = new Contest(way, Shares.named(name), contenders, keys);
                System.out.println(contest.run(Double.parseDouble(words[1])));
            }
        }
    }
}
