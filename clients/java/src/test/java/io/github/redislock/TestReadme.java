package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.StringWriter;
import java.net.URLClassLoader;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;

/** The first screen of a README.md, for tests that run it as it is written there. */
public final class TestReadme {
    private final String text;

    /** Of the folder in which the tests run. */
    public TestReadme() throws IOException {
        text = Files.readString(Path.of("README.md"));
    }

    /** The first block of code in this language. */
    public String first(String language) {
        Matcher block = Pattern.compile("```" + language + "\n(.*?)```", Pattern.DOTALL).matcher(text);
        assertTrue(block.find(), "no " + language);
        return block.group(1);
    }

    /** Compiles the first block of Java, with this port in place of that of Redis. */
    public Class<?> compile(String name, int port) throws IOException, ReflectiveOperationException {
        return compile(name, first("java").replace("6379", String.valueOf(port)));
    }

    /** Compiles this text. */
    static Class<?> compile(String name, String text) throws IOException, ReflectiveOperationException {
        Path folder = Files.createTempDirectory("readme");
        Path source = folder.resolve(name.substring(name.lastIndexOf('.') + 1) + ".java");
        Files.writeString(source, text);
        StringWriter said = new StringWriter();
        var compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(null, null, null)) {
            List<String> options = List.of("-parameters", "-proc:none", "-d", folder.toString(), "-classpath",
                    System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")));
            assertTrue(compiler.getTask(said, files, null, options, null, files.getJavaFileObjects(source)).call(),
                    said.toString());
        }
        try (var files = Files.walk(folder)) {
            files.forEach(file -> file.toFile().deleteOnExit()); // what is in a folder before the folder
        }
        return new URLClassLoader(new URL[] {folder.toUri().toURL()}, TestReadme.class.getClassLoader()).loadClass(name);
    }

    /** The dependency that it names is what this folder builds. */
    public void namesItsArtifact() throws IOException {
        String pom = Files.readString(Path.of("pom.xml"));
        String dependency = first("xml");
        String own = pom.substring(pom.indexOf("</parent>"));
        for (String field : List.of("groupId", "artifactId", "version")) {
            Matcher built = Pattern.compile("<" + field + ">(.*?)<").matcher(field.equals("artifactId") ? own : pom);
            Matcher named = Pattern.compile("<" + field + ">(.*?)<").matcher(dependency);
            assertTrue(built.find() && named.find(), field);
            assertEquals(built.group(1), named.group(1));
        }
    }
}
