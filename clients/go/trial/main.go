// The worker of the common trial of all clients (crates/testing/trial): it does what JSON lines on standard input
// say, all at a time, and answers each by a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

type request struct {
	ID     int64
	Do     string
	Name   string
	Server struct {
		URL, Master        string
		Sentinels, Cluster []string
	}
	Service  string
	Password *string
	ReplyMS  int64 `json:"reply_ms"`
	Locks    string
	Key      string
	Mode     json.RawMessage
	WaitMS   int64 `json:"wait_ms"`
	LeaseMS  int64 `json:"lease_ms"`
	KeepMS   int64 `json:"keep_ms"`
	Task     *string
	Call     int64
	Grant    int64
	MS       int64
}

type line map[string]any

type worker struct {
	mu     sync.Mutex
	sites  map[string]*site
	tasks  map[string]*redislock.Locks
	grants map[int64]*redislock.Grant
	calls  map[int64]context.CancelFunc
	next   int64
}

// site is a client with its locks. The lease is one of all locks of a session, so those of another lease are others.
type site struct {
	client  redis.UniversalClient
	options redislock.Options
	mu      sync.Mutex
	locks   map[[2]int64]*redislock.Locks
}

func (s *site) of(leaseMS, silenceMS int64) *redislock.Locks {
	s.mu.Lock()
	defer s.mu.Unlock()
	which := [2]int64{leaseMS, silenceMS}
	if silenceMS == 0 { // fixed
		which = [2]int64{}
	}
	if s.locks[which] == nil {
		options := s.options
		options.Lease = time.Duration(which[0]) * time.Millisecond
		options.Silence = time.Duration(which[1]) * time.Millisecond
		s.locks[which] = redislock.New(s.client, options)
	}
	return s.locks[which]
}

func (s *site) close(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, locks := range s.locks {
		err = errors.Join(err, locks.Close(ctx))
	}
	return err
}

func main() {
	w := &worker{sites: map[string]*site{}, tasks: map[string]*redislock.Locks{},
		grants: map[int64]*redislock.Grant{}, calls: map[int64]context.CancelFunc{}}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		var r request
		if err := json.Unmarshal(input.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		w.mu.Lock()
		w.calls[r.ID] = cancel // before the next line is read, which may cancel it
		w.mu.Unlock()
		go w.answer(ctx, r)
	}
	os.Exit(0)
}

func (w *worker) answer(ctx context.Context, r request) {
	reply, err := w.carryOut(ctx, r)
	w.mu.Lock()
	delete(w.calls, r.ID)
	w.mu.Unlock()
	if err != nil {
		reply = line{"error": word(err), "text": err.Error()}
	}
	reply["id"] = r.ID
	w.print(reply)
}

func (w *worker) print(it line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(it)
}

var words = []struct {
	kind error
	word string
}{
	{redislock.ErrBusy, "busy"}, {redislock.ErrLost, "lost"}, {redislock.ErrDeadlock, "deadlock"},
	{redislock.ErrNotAlone, "not-alone"}, {redislock.ErrRefused, "refused"},
	{redislock.ErrUnavailable, "unavailable"}, {redislock.ErrMisuse, "misuse"}, {context.Canceled, "cancelled"},
	{errors.ErrUnsupported, "unsupported"},
}

func word(err error) string {
	for _, known := range words {
		if errors.Is(err, known.kind) {
			return known.word
		}
	}
	return "misuse"
}

func (w *worker) carryOut(ctx context.Context, r request) (line, error) {
	ok := line{"ok": true}
	w.mu.Lock()
	at, grant, cancel := w.sites[r.Locks], w.grants[r.Grant], w.calls[r.Call]
	w.mu.Unlock()
	switch r.Do {
	case "open":
		return ok, w.open(r)
	case "acquire":
		if at == nil {
			return nil, errors.New("no such locks")
		}
		return w.acquire(ctx, at.of(r.LeaseMS, r.KeepMS), r)
	case "cancel":
		if cancel != nil {
			cancel()
		}
		return ok, nil
	case "release", "check":
		if grant == nil {
			return nil, errors.New("no such grant")
		}
		if r.Do == "release" {
			return ok, grant.Release(ctx)
		}
		return line{"ok": true, "held": true}, grant.Check(ctx)
	case "stall":
		time.Sleep(time.Duration(r.MS) * time.Millisecond)
		return ok, nil
	case "close":
		if at == nil {
			return nil, errors.New("no such locks")
		}
		return ok, at.close(ctx)
	}
	return nil, fmt.Errorf("%s: %w", r.Do, errors.ErrUnsupported)
}

func (w *worker) open(r request) error {
	password := ""
	if r.Password != nil {
		password = *r.Password
	}
	var client redis.UniversalClient
	switch {
	case r.Server.URL != "":
		options, err := redis.ParseURL(r.Server.URL)
		if err != nil {
			return err
		}
		if password != "" {
			options.Password = password
		}
		client = redis.NewClient(options)
	case r.Server.Master != "":
		client = redis.NewFailoverClient(&redis.FailoverOptions{
			SentinelAddrs: r.Server.Sentinels, MasterName: r.Server.Master, Password: password})
	default:
		client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: r.Server.Cluster, Password: password})
	}
	options := redislock.Options{Service: r.Service, Reply: time.Duration(r.ReplyMS) * time.Millisecond}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[r.Name] = &site{client: client, options: options, locks: map[[2]int64]*redislock.Locks{}}
	return nil
}

func (w *worker) acquire(ctx context.Context, locks *redislock.Locks, r request) (line, error) {
	var options []redislock.LockOption
	if r.KeepMS == 0 {
		options = append(options, redislock.Fixed(time.Duration(r.LeaseMS)*time.Millisecond))
	}
	if r.WaitMS > 0 {
		options = append(options, redislock.Wait(time.Duration(r.WaitMS)*time.Millisecond))
	}
	var mode string
	var places struct{ Limit int }
	switch {
	case json.Unmarshal(r.Mode, &mode) != nil:
		if err := json.Unmarshal(r.Mode, &places); err != nil {
			return nil, err
		}
		options = append(options, redislock.Permits(places.Limit))
	case mode == "shared":
		options = append(options, redislock.Shared())
	}
	if r.Task != nil {
		w.mu.Lock()
		task := w.tasks[r.Locks+" "+*r.Task]
		if task == nil {
			task = locks.Task()
			w.tasks[r.Locks+" "+*r.Task] = task
		}
		w.mu.Unlock()
		locks = task
	}
	acquire := locks.Acquire
	if r.WaitMS == 0 {
		acquire = locks.TryAcquire
	}
	grant, err := acquire(ctx, r.Key, options...)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.next++
	id := w.next
	w.grants[id] = grant
	w.mu.Unlock()
	grant.OnLost(func(error) { w.print(line{"event": "lost", "grant": id}) })
	return line{"grant": id, "token": grant.Token(), "owner": grant.Owner()}, nil
}
