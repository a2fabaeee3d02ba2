package redislock

import (
	"context"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// errAhead refuses a raise: the token is too far ahead of the clock of that server.
var errAhead = state.ErrAhead

// raise lifts the token of a grant. After any failure but [errAhead] it is not known which token the grant has: it has to
// be given up.
func (g *Grant) raise(ctx context.Context, token int64) error {
	return g.call(ctx, "raise", func(*state.State) []any { return g.claim.RenewCommand("RAISE", token) },
		(*state.State).Confirmed)
}
