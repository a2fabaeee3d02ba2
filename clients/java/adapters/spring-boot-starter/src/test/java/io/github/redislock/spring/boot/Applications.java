package io.github.redislock.spring.boot;

import io.github.redislock.TestBed;
import io.github.redislock.TestServer;
import java.time.Duration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** Applications with all auto-configurations of Spring Boot, 3 or 4, and servers that end with the test. */
abstract class Applications extends TestBed {
    static final Duration LONG = Duration.ofSeconds(20);

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Empty {}

    /** Without a web server. The reply timeout is for a busy machine. */
    static ApplicationContextRunner application(String... properties) {
        return new ApplicationContextRunner().withUserConfiguration(Empty.class)
                .withPropertyValues("spring.application.name=shop", "redis-lock.reply-timeout=5s")
                .withPropertyValues(properties);
    }

    static ApplicationContextRunner on(TestServer server) {
        return application("spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + server.port);
    }

    /** With a web server. */
    ConfigurableApplicationContext web(Class<?> main, TestServer server, String... properties) {
        return closing(new SpringApplicationBuilder(main).properties("server.port=0", "spring.data.redis.host=127.0.0.1",
                "spring.data.redis.port=" + server.port, "redis-lock.reply-timeout=5s").properties(properties).run());
    }

    static String url(ConfigurableApplicationContext web, String path) {
        return "http://127.0.0.1:" + web.getEnvironment().getProperty("local.server.port") + path;
    }
}
