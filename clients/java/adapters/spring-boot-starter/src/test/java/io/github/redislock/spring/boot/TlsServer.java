package io.github.redislock.spring.boot;

import io.github.redislock.testbed.TestServer;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.Map;
import org.junit.jupiter.api.Assumptions;

/** A server that speaks TLS too, with a certificate that was made for it. */
record TlsServer(TestServer server, int port, Path certificate) {
    private static final char[] PASSWORD = "changeit".toCharArray();

    static TlsServer start(Applications servers) throws Exception {
        Path folder = Files.createTempDirectory("tls");
        servers.closing(() -> {
            for (Path file : Files.list(folder).toList()) {
                Files.delete(file);
            }
            Files.delete(folder);
        });
        Path store = folder.resolve("store.p12");
        Process keytool = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair", "-alias", "redis", "-keyalg", "EC", "-dname", "CN=redis", "-ext", "SAN=ip:127.0.0.1",
                "-storetype", "PKCS12", "-keystore", store.toString(), "-storepass", new String(PASSWORD)).start();
        if (keytool.waitFor() != 0) {
            throw new IllegalStateException("keytool: " + new String(keytool.getInputStream().readAllBytes()));
        }
        KeyStore keys = KeyStore.getInstance(store.toFile(), PASSWORD);
        Path key = pem(folder.resolve("key.pem"), "PRIVATE KEY", keys.getKey("redis", PASSWORD).getEncoded());
        Path certificate = pem(folder.resolve("certificate.pem"), "CERTIFICATE", keys.getCertificate("redis").getEncoded());
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        TestServer server = null;
        try {
            server = servers.start("server", Map.of("config", Map.of("tls-port", String.valueOf(port),
                    "tls-cert-file", certificate.toString(), "tls-key-file", key.toString(),
                    "tls-ca-cert-file", certificate.toString(), "tls-auth-clients", "no"))).get(0);
        } catch (AssertionError e) {
            Assumptions.abort("this server was built without TLS");
        }
        return new TlsServer(server, port, certificate);
    }

    private static Path pem(Path file, String what, byte[] bytes) throws java.io.IOException {
        return Files.writeString(file, "-----BEGIN " + what + "-----\n" + Base64.getMimeEncoder().encodeToString(bytes)
                + "\n-----END " + what + "-----\n");
    }
}
