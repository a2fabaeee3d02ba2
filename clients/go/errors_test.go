package redislock

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// The table that all clients share says of each error the same as this one.
func TestTheTableOfErrors(t *testing.T) {
	t.Parallel()
	var table struct {
		Errors []struct{ Begins, Acquire, Renew, Release string }
	}
	mustSay(t, json.Unmarshal(must[[]byte](t)(os.ReadFile("../protocol/errors.json")), &table), nil)
	if len(table.Errors) != kinds.Classes() {
		t.Fatal(len(table.Errors), "entries there,", kinds.Classes(), "here")
	}
	kinds := map[string]error{"lost": ErrLost, "deadlock": ErrDeadlock, "not-alone": ErrNotAlone,
		"refused": ErrRefused, "passing": errPassing, "misuse": ErrMisuse}
	for _, entry := range table.Errors {
		said := wire.ServerError(entry.Begins + " and so on")
		for call, class := range map[callKind]string{acquiring: entry.Acquire, renewing: entry.Renew, releasing: entry.Release} {
			if got := kindOf(call, said); got != kinds[class] || kinds[class] == nil {
				t.Errorf("%q: %v, and not %s", said, got, class)
			}
		}
	}
	if kindOf(acquiring, errors.New("broken pipe")) != errPassing {
		t.Error("what is no reply passes")
	}
}

func TestErrorsAreOneFamilyAndHideNoCause(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("SET k text")
	_, err := server.locks().Lock("k", patient).Acquire(background)
	mustSay(t, err, ErrMisuse)
	var own *Error
	if !errors.As(err, &own) || own.Op != "acquire" || own.Key != "k" || !begins(own.Cause, "WRONGTYPE") {
		t.Fatal(err)
	}
}

func TestMisuseIsToldWithoutACall(t *testing.T) {
	t.Parallel()
	locks := New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Options{})
	defer locks.Close(background)
	for _, lock := range []*Lock{
		locks.Lock("k", Wait(-1)), locks.Lock("k", Lease(-1)), locks.Lock("k", Lease(time.Millisecond)),
		locks.Lock("k", Owner("")), locks.Lock("k", Owner(strings.Repeat("x", 257))), locks.Permit("k", 0),
		locks.Task().Lock("k", Owner("x")), locks.Lock("k", Keep(time.Millisecond)),
		New(redis.NewRing(&redis.RingOptions{}), Options{}).Lock("k"),
		New(nil, Options{}).Lock("k"),
	} {
		_, err := lock.Acquire(background)
		mustSay(t, err, ErrMisuse)
	}
}

// The caller's cancellation is seen, with its cause, and told once.
func TestACancellationKeepsItsCause(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	why := errors.New("the shop has closed")
	ctx, cancel := context.WithCancelCause(background)
	waiting := inBackground(ctx, server.locks().Lock("k", Wait(Forever)))
	server.waiting("k", 1)
	cancel(why)
	err := (<-waiting).err
	mustSay(t, err, context.Canceled)
	mustSay(t, err, why)
	var own *Error
	if !errors.As(err, &own) || own.Kind != nil || strings.Count(err.Error(), "canceled") != 1 {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(background, 100*time.Millisecond)
	defer stop()
	_, err = server.locks().Lock("k", Wait(Forever)).Acquire(ctx)
	mustSay(t, err, context.DeadlineExceeded)
}
