package redislock

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// panics gives what the work panics with.
func panics(t *testing.T, work func()) (err error) {
	t.Helper()
	defer func() {
		said := recover()
		own, isOwn := said.(*Error)
		if !isOwn {
			t.Fatal("no panic with an *Error:", said)
		}
		err = own
	}()
	work()
	return nil
}

func TestALockerExcludes(t *testing.T) {
	t.Parallel()
	server := start(t)
	var all sync.WaitGroup
	count, last := 0, int64(0)
	for range 3 {
		locker := server.locks().Lock("k").Locker(nil)
		for range 3 {
			all.Go(func() {
				for range 5 {
					locker.Lock()
					if token := locker.Grant().Token(); token <= last {
						t.Error("tokens fall")
					} else {
						last = token
					}
					count++
					locker.Unlock()
				}
			})
		}
	}
	all.Wait()
	if count != 45 || server.do("EXISTS k") != int64(0) {
		t.Fatal(count)
	}
}

// It is a sync.Locker for what is made for one.
func TestALockerServesACondition(t *testing.T) {
	t.Parallel()
	server := start(t)
	locker := server.locks().Lock("k").Locker(nil)
	condition, ready := sync.NewCond(locker), false
	go func() {
		locker.Lock()
		defer locker.Unlock()
		ready = true
		condition.Broadcast()
	}()
	locker.Lock()
	defer locker.Unlock()
	for !ready {
		condition.Wait()
	}
}

func TestALockerThatCannotHaveTheLockPanicsInTime(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	held := acquire(t, locks.Lock("k"))
	locker := locks.Lock("k", Wait(300*time.Millisecond)).Locker(nil)
	begun := time.Now()
	mustSay(t, panics(t, locker.Lock), ErrBusy)
	if took := time.Since(begun); took < 300*time.Millisecond || took > 3*time.Second {
		t.Fatal("took", took)
	}
	if locker.TryLock() {
		t.Fatal("two holders")
	}
	mustSay(t, panics(t, locker.Unlock), ErrMisuse)
	mustSay(t, held.Release(background), nil)
	locker.Lock() // a panic has left nothing behind
	begun = time.Now()
	mustSay(t, panics(t, locker.Lock), ErrBusy) // nor may the same process enter again
	if locker.TryLock() || time.Since(begun) > 3*time.Second {
		t.Fatal("entered", time.Since(begun))
	}
	locker.Unlock()
	if !locker.TryLock() {
		t.Fatal("not free")
	}
	locker.Unlock()

	mustSay(t, panics(t, locks.Shared("k").Locker(nil).Lock), ErrMisuse)
	server.order("kill", words{})
	mustSay(t, takes(t, 3*time.Second, func() error { return panics(t, locker.Lock) }), ErrUnavailable)
	_ = locks.Close(background)
	mustSay(t, panics(t, locker.Lock), ErrClosed)
}

func TestALockerTellsALoss(t *testing.T) {
	t.Parallel()
	server := start(t)
	told := make(chan error, 1)
	listening := server.locks().Lock("k").Locker(func(err error) { told <- err })
	listening.Lock()
	server.do("DEL k")
	eventually(t, "it is lost", func() bool { return !listening.Grant().Held() })
	listening.Unlock()
	mustSay(t, <-told, ErrLost)
	listening.Lock()
	server.do("DEL k")
	other := server.locks().Lock("k").Locker(nil)
	other.Lock() // who was put out lets nobody else out
	listening.Unlock()
	mustSay(t, <-told, ErrLost)
	server.do("DEL k")
	eventually(t, "it is lost", func() bool { return !other.Grant().Held() })
	mustSay(t, panics(t, other.Unlock), ErrLost)
	server.do("SET k text")
	if listening.TryLock() {
		t.Fatal("locked")
	}
	if err := <-told; !errors.Is(err, ErrMisuse) {
		t.Fatal(err)
	}
}

// A release that lets the lock end later needs nobody any more.
func TestAReleaseAfterATime(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	begun := time.Now()
	kept, fixed := acquire(t, locks.Lock("kept")), acquire(t, locks.Lock("fixed", Fixed(), Lease(time.Minute)))
	for _, grant := range []*Grant{kept, fixed} {
		mustSay(t, grant.ReleaseAfter(background, 1500*time.Millisecond), nil)
		mustSay(t, grant.ReleaseAfter(background, time.Second), ErrMisuse)
		mustSay(t, grant.Err(), ErrMisuse)
		if grant.Held() || server.info(grant.Key(), "token") != grant.Token() {
			t.Fatal(grant.Key())
		}
	}
	mustSay(t, locks.Close(background), nil)
	eventually(t, "they end", func() bool { return server.do("EXISTS kept fixed") == int64(0) })
	if stood := time.Since(begun); stood < 1500*time.Millisecond || stood > 4*time.Second {
		t.Fatal("stood for", stood)
	}

	locks = server.locks()
	mustSay(t, acquire(t, locks.Lock("now")).ReleaseAfter(background, 0), nil)
	task := locks.Task()
	outer, inner := acquire(t, task.Lock("task")), acquire(t, task.Lock("task"))
	mustSay(t, outer.ReleaseAfter(background, time.Minute), nil)
	mustSay(t, inner.Check(background), nil)
	mustSay(t, inner.Release(background), nil)
	lost := acquire(t, locks.Lock("lost"))
	server.do("DEL lost")
	<-lost.Lost()
	mustSay(t, lost.ReleaseAfter(background, time.Second), ErrLost)
	if server.do("EXISTS now task lost") != int64(0) {
		t.Fatal("not released")
	}
}
