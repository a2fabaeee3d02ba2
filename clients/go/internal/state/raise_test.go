package state

import "testing"

// The token is that of the raise, for events, for its release, and for a loss that is reported before the reply.
func TestARaise(t *testing.T) {
	r := open(t)
	c, before, both := r.held("k"), r.held("before"), r.held("both")
	r.BeginCall(before.Name)
	r.poll(-1, 3, lost("before", 60))
	for raised, kind := range map[*Claim]error{c: nil, before: ErrLost, both: nil} {
		if fault := r.Confirmed(raised, grants(60, 1, 10000).at(r.At)); (fault != nil) != (kind != nil) {
			t.Fatal(fault)
		}
	}
	r.EndCall(before.Name)
	if !before.IsLost() || c.Phase != Held || c.ReleaseCommand()[6] != int64(60) {
		t.Fatal(before.Phase, c.Phase, c.ReleaseCommand())
	}
	r.poll(-1, 2, lost("k", 50)) // of an earlier grant
	if r.poll(-1, 1, lost("both", 60)); c.Phase != Held || c.Token != 60 || !both.IsLost() {
		t.Fatal(c.Phase, c.Token, both.Phase)
	}
}
