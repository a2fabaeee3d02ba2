package io.github.redislock.demo;

import io.github.redislock.LockBusyException;
import io.github.redislock.LockException;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** {@code POST /seats/7/buy?buyer=ann}: 200 where ann got the seat, 409 where it is another's. */
@RestController
class SeatsController {
    private final BoxOffice office;

    SeatsController(BoxOffice office) {
        this.office = office;
    }

    @PostMapping("/seats/{seat}/buy")
    ResponseEntity<String> buy(@PathVariable int seat, @RequestParam String buyer) throws InterruptedException {
        return office.sell(seat, buyer) ? ResponseEntity.ok("yours")
                : ResponseEntity.status(HttpStatus.CONFLICT).body("sold");
    }

    /** 503: try again; many want this seat, or the locks cannot be reached. */
    @ExceptionHandler(LockException.class)
    ResponseEntity<String> busy(LockException e) {
        return ResponseEntity.status(HttpStatus.SERVICE_UNAVAILABLE)
                .body(e instanceof LockBusyException ? "many want this seat" : "no locks");
    }
}
