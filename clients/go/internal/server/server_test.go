package server

import (
	"context"
	"testing"
	"time"
)

// A call that shares a pipeline does not outlast its own limit, or its context, while the calls before it hang. It is
// not sent later.
func TestACallThatQueuesEndsInTime(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for limit, ctx := range map[time.Duration]context.Context{time.Hour: ended, time.Millisecond: context.Background()} {
		s := &Server{flights: crowd, most: 10, landed: time.Since(epoch) + time.Hour}
		reply := s.Call(ctx, limit, false, []any{"PING"})
		if !reply.Fault.Passing() || reply.Fault.NoReply() || len(s.queue) > 0 {
			t.Fatal(reply.Fault, s.queue)
		}
	}
}
