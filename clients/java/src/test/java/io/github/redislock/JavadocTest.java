package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The samples in the documentation of the classes compile as they stand there. */
class JavadocTest {
    private static final Pattern SAMPLE = Pattern.compile("<pre>\\{@code\n(.*?)\\}</pre>", Pattern.DOTALL);

    /** What the samples take for granted. */
    private static final String FRAME = """
            import io.github.redislock.*;
            import io.github.redislock.jedis.*;
            import io.github.redislock.lettuce.*;
            import io.github.redislock.spi.*;
            import io.github.redislock.testing.*;
            import io.lettuce.core.RedisClient;
            import io.lettuce.core.codec.ByteArrayCodec;
            import java.time.Duration;

            class Sample {
                interface LettuceConnectionFactory { // of Spring
                    Object getRequiredNativeClient();
                }

                void sample(LettuceConnectionFactory factory) throws Exception {
            %s
                }
            }
            """;

    @Test
    void theSamplesCompile() throws Exception {
        List<Path> sources;
        try (var all = Files.walk(Path.of("src/main/java"))) {
            sources = all.filter(file -> file.toString().endsWith(".java")).toList();
        }
        int compiled = 0;
        for (Path source : sources) {
            Matcher samples = SAMPLE.matcher(Files.readString(source));
            while (samples.find()) {
                TestReadme.compile("Sample", FRAME.formatted(samples.group(1).replaceAll("(?m)^ *\\* ?", "")));
                compiled++;
            }
        }
        assertTrue(compiled >= 2, compiled + " samples");
    }
}
