package io.github.redislock.demo;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** Sells the seats of a hall, in any number of instances. */
@SpringBootApplication
public class SeatsApplication {
    public static void main(String[] arguments) {
        SpringApplication.run(SeatsApplication.class, arguments);
    }
}
