package redislock

import (
	"context"
	"errors"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// errAhead refuses a raise: the token is too far ahead of the clock of that server.
var errAhead = errors.New("its clock is behind that of another server")

// raise lifts the token of a grant. After any failure but [errAhead] it is not known which token the grant has: it has to
// be given up.
func (g *Grant) raise(ctx context.Context, token int64) error {
	return g.call(ctx, "raise", func(*state.State) []any {
		return []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner, "TOKEN", g.claim.Token, "RAISE", token}
	}, func(st *state.State, c *state.Claim, reply state.Reply) *Error {
		failure := st.Confirmed(c, reply)
		switch {
		case failure == nil:
			st.Raised(c, token)
		case reply.Fault != nil && reply.Fault.Word == "AHEAD":
			failure.Kind = errAhead
		}
		return failure
	})
}
