package server

import (
	"testing"
	"time"
)

// A call that shares a pipeline does not outlast its own limit while the calls before it hang. It is not sent later.
func TestACallThatQueuesEndsInTime(t *testing.T) {
	s := &Server{turns: make(chan struct{})} // none is free
	reply := s.Call(time.Millisecond, false, []any{"PING"})
	if !reply.Fault.Passing() || reply.Fault.NoReply() || s.next != nil {
		t.Fatal(reply.Fault, s.next)
	}
}
