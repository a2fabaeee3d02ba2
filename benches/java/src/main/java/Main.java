import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Locale;

/**
 * Contenders for locks on one server. Arguments: the server's port, the way of locking (client, commands, baton,
 * rlock, rfair; for shares client-, commands- or redisson- with threads, calls or permits, see {@link Shares}), how
 * many contenders for how many locks, and how many milliseconds each holds a lock, and then rests.
 *
 * <p>It says "ready" when it is connected. Each line of input is the seconds of a turn, answered by a line of JSON.
 * So whoever drives several such programs can let them take short turns, and can measure the server around each.
 *
 * <p>With the arguments watchdog, the server's port and the name of a lock, it holds that lock instead.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Locale.setDefault(Locale.ROOT);
        if (arguments[0].equals("watchdog")) {
            // Without a lease given, Redisson's watchdog renews one of 30 seconds.
            Way.redisson(Integer.parseInt(arguments[1])).getLock(arguments[2]).lock();
            System.out.println("held");
            Thread.sleep(Long.MAX_VALUE);
        }
        Contest contest = new Contest(
                Integer.parseInt(arguments[0]),
                arguments[1],
                Integer.parseInt(arguments[2]),
                Integer.parseInt(arguments[3]),
                Integer.parseInt(arguments[4]));
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(contest.turn(Double.parseDouble(line)));
        }
        System.exit(0);
    }
}
