package server

import (
	"testing"
	"time"
)

// A call that queues does not outlast its own limit while the calls before it hang. It is not sent later.
func TestACallThatQueuesEndsInTime(t *testing.T) {
	s := &Server{flying: most}
	reply := s.Call(time.Millisecond, false, []any{"PING"})
	if !reply.Fault.Passing() || reply.Fault.NoReply() || len(s.queue) > 0 {
		t.Fatal(reply.Fault, s.queue)
	}
}

// A call does not outlast its own limit either when the others of its pipeline have more time.
func TestACallOfASharedPipelineEndsInTime(t *testing.T) {
	s, isOver := &Server{flying: most}, make(chan struct{})
	defer close(isOver)
	go func() { // a pipeline that hangs takes the calls along
		for {
			select {
			case <-isOver:
				return
			default:
				s.mu.Lock()
				s.queue = nil
				s.mu.Unlock()
			}
		}
	}()
	for !s.Call(time.Millisecond, false, []any{"PING"}).Fault.NoReply() {
	}
}
