package server

import (
	"testing"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// A call that shares a pipeline does not outlast its own limit while the calls before it hang. It is not sent later.
func TestACallThatQueuesEndsInTime(t *testing.T) {
	s := &Server{turns: make(chan struct{})} // none is free
	reply := s.Call(time.Millisecond, false, []any{"PING"})
	if !reply.Fault.Passing() || reply.Fault.NoReply() || s.next != nil {
		t.Fatal(reply.Fault, s.next)
	}
}

// A call does not outlast its own limit either when the others of its pipeline have more time.
func TestACallOfASharedPipelineEndsInTime(t *testing.T) {
	s := &Server{turns: make(chan struct{})}
	long := make(chan struct{})
	go func() {
		defer close(long)
		s.Call(time.Minute, false, []any{"PING"})
	}()
	for s.take(nil) { // until the long call is in the queue
		time.Sleep(time.Millisecond)
	}
	reply := s.Call(time.Millisecond, false, []any{"PING"})
	if !reply.Fault.NoReply() {
		t.Fatal(reply.Fault)
	}
	b := s.next
	s.take(b)
	b.answer(make([]state.Reply, len(b.commands)))
	<-long
}
