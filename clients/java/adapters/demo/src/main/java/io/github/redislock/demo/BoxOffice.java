package io.github.redislock.demo;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import java.time.Duration;
import java.util.List;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Service;

/**
 * Sells a seat under its lock, and fences what it writes with the lock's token: an instance that has lost the lock
 * without knowing writes nothing. The table of sales would take a seat twice; only the lock and the fence keep it from that.
 */
@Service
class BoxOffice {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final Locks locks;
    private final JdbcClient database;
    private final boolean isLocked;
    private final Duration payment;

    BoxOffice(Locks locks, JdbcClient database, @Value("${seats.locked:true}") boolean isLocked,
            @Value("${seats.payment:20ms}") Duration payment) {
        this.locks = locks;
        this.database = database;
        this.isLocked = isLocked;
        this.payment = payment;
    }

    /** Whether this buyer got the seat. */
    boolean sell(int seat, String buyer) throws InterruptedException {
        if (!isLocked) {
            return sell(seat, buyer, 0); // to see what happens
        }
        try (Grant grant = locks.get("lock:seat:" + seat).waiting(PATIENCE).lockInterruptibly()) {
            return sell(seat, buyer, grant.token());
        }
    }

    private boolean sell(int seat, String buyer, long token) throws InterruptedException {
        if (!claims(seat, token) || isSold(seat)) {
            return false;
        }
        Thread.sleep(payment.toMillis()); // the buyer pays
        return book(seat, buyer, token);
    }

    /** False where somebody with a later token has been here: this lock is lost. */
    private boolean claims(int seat, long token) {
        return database.sql("UPDATE seats SET fence = ? WHERE seat = ? AND fence <= ?")
                .params(token, seat, token).update() == 1;
    }

    private boolean isSold(int seat) {
        return database.sql("SELECT COUNT(*) FROM sales WHERE seat = ?").param(seat).query(Integer.class).single() > 0;
    }

    private boolean book(int seat, String buyer, long token) {
        return database.sql("INSERT INTO sales (seat, buyer, token) SELECT seat, ?, fence FROM seats WHERE seat = ? AND fence = ?")
                .params(List.of(buyer, seat, token)).update() == 1;
    }
}
