package redislock

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Rights, wrong passwords, a missing module, another type: reported at once, with the cause.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.run("SET text x")
	s.run("ACL SETUSER none on nopass ~* +@all -lock.session")
	for name, one := range map[string]struct {
		change func(*redis.Options)
		key    string
		kind   error
		says   string
	}{
		"another type":   {func(*redis.Options) {}, "text", ErrMisuse, "SET NX"},
		"no session":     {func(o *redis.Options) { o.Username = "none"; o.Password = "x" }, "k", ErrRefused, "NOPERM"},
		"wrong password": {func(o *redis.Options) { o.Username = "nobody"; o.Password = "x" }, "k", ErrRefused, "WRONGPASS"},
	} {
		begun := time.Now()
		_, err := newLocks(t, s.client(one.change)).Acquire(background, one.key)
		is(t, err, one.kind)
		if !strings.Contains(err.Error(), one.says) || time.Since(begun) > time.Second {
			t.Fatal(name, err, time.Since(begun))
		}
	}
}

// Close ends waits, releases grants, and closes the connections; afterwards nothing works.
func TestClose(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks, other := s.locks(), s.locks()
	grant, fixed := must[*Grant](t)(locks.Acquire(background, "k")), must[*Grant](t)(locks.Acquire(background, "f", Fixed(time.Minute)))
	theirs := must[*Grant](t)(other.Acquire(background, "theirs"))
	waiting := meanwhile(func() (*Grant, error) { return locks.Acquire(background, "theirs") })
	s.waiting("theirs", 1)
	is(t, locks.Close(background), nil)
	is(t, (<-waiting).err, ErrClosed)
	if s.info("k", "owner") != nil || s.info("f", "owner") != nil {
		t.Fatal("not released")
	}
	s.waiting("theirs", 0)
	is(t, grant.Release(background), ErrClosed)
	is(t, fixed.Release(background), ErrMisuse)
	_, err := locks.Acquire(background, "k")
	is(t, err, ErrClosed)
	is(t, locks.Close(background), nil)
	is(t, theirs.Release(background), nil)
}

// A server that hangs does not hold up Close for long.
func TestCloseIsLimited(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	must[*Grant](t)(locks.Acquire(background, "k"))
	s.order("pause")
	begun := time.Now()
	is(t, locks.Close(background), ErrUnavailable)
	if took := time.Since(begun); took > 5*time.Second {
		t.Fatal("took", took)
	}
	s.order("resume")
}

// A session that has ended is not closed over and over: its grants are released one by one.
func TestCloseAfterTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	must[*Grant](t)(locks.Acquire(background, "k"))
	s.run("LOCK.SESSION KILL %d", s.sessions()[0]["id"])
	begun := time.Now()
	is(t, locks.Close(background), nil)
	if took := time.Since(begun); took > time.Second {
		t.Fatal("took", took)
	}
	if s.info("k", "owner") != nil || len(s.sessions()) > 0 {
		t.Fatal(s.run("LOCK.INFO k"), s.sessions())
	}
}
