package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Packages point one way, and a file has at most 400 lines. */
class PackagesTest {
    private static final String ROOT = "io.github.redislock";
    private static final Map<String, List<String>> MAY_USE = Map.of("", List.of(".spi", ".state"), ".state", List.of(".spi"),
            ".spi", List.of(), ".jedis", List.of(".spi"), ".lettuce", List.of(".spi"), ".testing", List.of(".spi"));

    @Test
    void packagesPointOneWay() throws Exception {
        List<Path> sources;
        try (var all = Files.walk(Path.of("src/main/java"))) {
            sources = all.filter(file -> file.toString().endsWith(".java")).toList();
        }
        for (Path source : sources) {
            List<String> lines = Files.readAllLines(source);
            assertTrue(lines.size() <= 400, source + " has " + lines.size() + " lines");
            String own = lines.stream().filter(line -> line.startsWith("package ")).findFirst().orElseThrow()
                    .replaceAll("^package " + ROOT + "|;$", "");
            lines.stream().filter(line -> line.startsWith("import " + ROOT + ".")).forEach(line -> {
                String used = line.replaceAll("^import " + ROOT + "|\\.[A-Z].*$", "");
                assertTrue(MAY_USE.get(own).contains(used), source + " uses " + used);
            });
        }
    }
}
