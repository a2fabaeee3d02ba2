package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Each public class has an example, or leads by its first see tag to one. All compile, and run if they need no server. */
class JavadocTest {
    private static final Pattern EXAMPLE = Pattern.compile("<pre>\\{@code\n(.*?)\\}</pre>", Pattern.DOTALL);
    private static final Pattern SEE = Pattern.compile("@see (?:io.github.redislock.)?(\\w+)");

    @Test
    @Timeout(60)
    void theExamplesRun() throws Exception {
        Map<String, String> sources = new HashMap<>(); // by the name of the class
        try (var all = Files.walk(Path.of("src/main/java"))) {
            for (Path file : all.filter(it -> it.toString().endsWith(".java")).toList()) {
                sources.put(file.getFileName().toString().replace(".java", ""), Files.readString(file));
            }
        }
        StringBuilder methods = new StringBuilder();
        List<String> run = new ArrayList<>();
        sources.forEach((name, source) -> {
            Matcher see = SEE.matcher(source);
            boolean isPublic = Pattern.compile("^public ", Pattern.MULTILINE).matcher(source).find();
            boolean isInternal = source.startsWith("package io.github.redislock.state;");
            boolean hasExample = EXAMPLE.matcher(see.find() ? sources.get(see.group(1)) : source).find();
            assertTrue(hasExample || !isPublic || isInternal, name + " has no example");
            EXAMPLE.matcher(source).results().map(it -> it.group(1).replaceAll("(?m)^ *\\* ?", "")).forEach(example -> {
                String method = name.toLowerCase() + methods.length();
                methods.append("public void %s() throws Exception {\n%s}\n".formatted(method, example));
                if (!example.matches("(?s).*(Server[.(]|quorum).*")) {
                    run.add(method);
                }
            });
        });
        String frame = Files.readString(Path.of("src/test/resources/Examples.java"));
        Object examples = TestReadme.compile("Examples", frame.replace("// the examples\n", methods))
                .getConstructor().newInstance();
        for (String method : run) {
            examples.getClass().getMethod(method).invoke(examples);
        }
        assertTrue(run.size() >= 10, run.toString());
    }
}
