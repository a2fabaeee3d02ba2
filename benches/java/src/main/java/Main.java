import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Locale;

/**
 * Contenders for locks on one server. Arguments: the server's port, and the way of locking (module,
 * baton, rlock, rfair).
 *
 * <p>Each line "contenders keys seconds" is a contest: everything is connected, "ready" is printed,
 * and the next line starts it. Its outcome is a line of JSON. So one process can run many, warm, and
 * whoever drives it can measure the server around each.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Locale.setDefault(Locale.ROOT);
        int port = Integer.parseInt(arguments[0]);
        try (Way way = Way.named(arguments[1], port)) {
            serve(way);
        }
    }

    private static void serve(Way way) throws IOException, InterruptedException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            Contest contest = new Contest(
                    way, Integer.parseInt(words[0]), Integer.parseInt(words[1]));
            contest.prepare();
            System.out.println("ready");
            if (input.readLine() == null) {
                return;
            }
            System.out.println(contest.run(Double.parseDouble(words[2])));
        }
    }
}
