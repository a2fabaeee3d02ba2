package redislock
import ("testing";"fmt";"time";"github.com/redis/go-redis/v9")
func TestZZ(t *testing.T) {
	s := start(t)
	s.run("CONFIG SET requirepass secret")
	for _, p := range []string{"wrong", ""} {
	locks := newLocks(t, redis.NewClient(&redis.Options{Addr: s.Address, Password: p}))
	b := time.Now()
	_, err := locks.Acquire(background, "k", Wait(2*time.Second))
	fmt.Println(time.Since(b), err)
	}
}
