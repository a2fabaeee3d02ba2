package io.github.redislock.testbed;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;

/** The README.md of the folder in which the tests run: they run its first program as it is written there. */
public final class TestReadme {
    private final String text;

    /** Reads it. */
    public TestReadme() throws IOException {
        text = Files.readString(Path.of("README.md"));
    }

    /** The first block in this language. */
    public String first(String language) {
        return found("(?s)```" + language + "\n(.*?)```", text);
    }

    private static String found(String pattern, String text) {
        Matcher matcher = Pattern.compile(pattern).matcher(text);
        assertThat(matcher.find()).as(pattern).isTrue();
        return matcher.group(1);
    }

    /** Compiles the first program, with this port in place of that of Redis; and checks its dependency. */
    public Class<?> compile(String name, int port) throws IOException, ReflectiveOperationException {
        String pom = Files.readString(Path.of("pom.xml"));
        assertThat(found("<artifactId>(.*?)<", first("xml")))
                .isEqualTo(found("<artifactId>(.*?)<", pom.substring(pom.indexOf("</parent>"))));
        Path folder = Files.createTempDirectory("readme");
        Path source = folder.resolve(name.substring(name.lastIndexOf('.') + 1) + ".java");
        Files.writeString(source, first("java").replace("6379", String.valueOf(port)));
        StringWriter said = new StringWriter();
        var compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(null, null, null)) {
            List<String> options = List.of("-parameters", "-proc:none", "-d", folder.toString(), "-classpath",
                    System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")));
            assertThat(compiler.getTask(said, files, null, options, null, files.getJavaFileObjects(source)).call())
                    .as(said::toString).isTrue();
        }
        try (var files = Files.walk(folder)) {
            files.forEach(file -> file.toFile().deleteOnExit()); // the folder is deleted last
        }
        return new URLClassLoader(new URL[] {folder.toUri().toURL()}, TestReadme.class.getClassLoader()).loadClass(name);
    }
}
