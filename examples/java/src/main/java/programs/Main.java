package programs;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** The example programs, as examples/README.md describes them. The first argument names the client. */
public final class Main {
    private Main() {}

    /** A program: gives its result. */
    interface Program {
        Map<String, Object> run(Redis redis, Options options) throws Exception;
    }

    private static final Map<String, Program> PROGRAMS = Map.of(
            "stock", Stock::run, "seat", Seat::run, "job", Job::run, "fence", Fence::run);

    /** What a program was called with. */
    record Options(Map<String, String> values) {
        String text(String name) {
            if (!values.containsKey(name)) {
                throw new WrongArguments("--" + name + " is missing");
            }
            return values.get(name);
        }

        long number(String name) {
            try {
                return Long.parseLong(text(name));
            } catch (NumberFormatException e) {
                throw new WrongArguments("--" + name + " takes a number");
            }
        }
    }

    static final class WrongArguments extends RuntimeException {
        WrongArguments(String message) {
            super(message);
        }
    }

    public static void main(String[] arguments) {
        System.exit(run(arguments));
    }

    private static int run(String[] arguments) {
        try {
            Iterator<String> words = List.of(arguments).iterator();
            String client = words.hasNext() ? words.next() : "";
            Program program = PROGRAMS.get(words.hasNext() ? words.next() : "");
            Options options = new Options(new TreeMap<>());
            while (words.hasNext()) {
                String name = words.next();
                if (!name.startsWith("--") || !words.hasNext()) {
                    throw new WrongArguments(name);
                }
                options.values.put(name.substring(2), words.next());
            }
            if (program == null) {
                throw new WrongArguments("stock, seat, job or fence");
            }
            Redis redis = Redis.connect(client, (int) options.number("port"), options);
            try {
                print(redis, program.run(redis, options));
            } catch (Exception e) {
                staySilent(redis);
                throw e;
            }
            return 0;
        } catch (WrongArguments e) {
            System.err.println(e.getMessage());
            return 2;
        } catch (Exception e) {
            e.printStackTrace();
            return 1;
        }
    }

    static synchronized void print(Redis redis, Map<String, Object> result) {
        staySilent(redis);
        System.out.println(result.entrySet().stream()
                .map(field -> "\"" + field.getKey() + "\": "
                        + (field.getValue() instanceof String text ? "\"" + text + "\"" : field.getValue()))
                .collect(Collectors.joining(", ", "{", "}")));
        System.out.flush();
    }

    /** After SIGTERM, which closes the locks, the JVM ends without a result. */
    private static void staySilent(Redis redis) {
        while (redis.isClosing()) {
            try {
                Thread.sleep(1000);
            } catch (InterruptedException e) {
                // Its end is near.
            }
        }
    }
}
