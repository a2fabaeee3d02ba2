package redislocktest

import (
	"strings"
	"testing"
)

// A grant that is the reply to its ACQUIRE has no event; one that was waited for has.
func TestAnImmediateGrantHasNoEvent(t *testing.T) {
	s := New()
	s.sessions[1] = nil
	for _, owner := range []string{"first", "next"} {
		s.answer(strings.Fields("LOCK.ACQUIRE k " + owner + " PX 10000 SESSION 1 QUEUE 0"))
	}
	if events := s.sessions[1]; len(events) > 0 {
		t.Fatal(events)
	}
	s.end("", func(c *call) bool { return c.owner == "first" })
	if events := s.sessions[1]; len(events) != 1 {
		t.Fatal(events)
	}
}
