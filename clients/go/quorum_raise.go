package redislock

import (
	"context"
	"errors"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// errAhead refuses a raise: the token is too far ahead of the clock of that server.
var errAhead = errors.New("its clock is behind that of another server")

// raise lifts the token of a grant. After any error but [errAhead] the grant has to be given up, by its owner alone:
// which token it has is not known.
func (g *Grant) raise(ctx context.Context, token int64) error {
	return g.call(ctx, "raise", func(st *state.State) ([]any, *state.Failure) {
		return []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner, "TOKEN", g.claim.Token, "RAISE", token},
			st.RequireHeld(g.claim)
	}, func(st *state.State, a answer) *state.Failure {
		if a.reply.Fault != nil && a.reply.Fault.Word == "AHEAD" {
			return &state.Failure{Kind: errAhead, Cause: a.reply.Fault}
		}
		if failure := st.Confirmed(g.claim, a.sent, a.reply, false); failure != nil {
			return failure
		}
		return st.Raised(g.claim, token)
	})
}
