package main

import (
	"database/sql"
	"errors"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/mattn/go-sqlite3"    // the driver "sqlite3"
)

// errStale: somebody with a newer token has claimed it.
var errStale = errors.New("the token is stale")

// unclaimed stands for how many are free where that could not be asked.
const unclaimed = -1

type statement struct {
	text  string
	given []any
}

// way is one of selling the last seat: claim, then look, then sell under the claim. See docs/fencing.md.
type way struct {
	name     string
	claiming statement // changes no row for a token that is stale
	free     string
	selling  []statement // the first changes no row when the claim does not stand any more
}

// waysToSell keeps the seat in one row that is there, in one that is not there yet, and in several tables.
func waysToSell(lock string, token int64, buyer string) []way {
	return []way{{
		name:     "row",
		claiming: statement{"UPDATE seats SET fence = $1 WHERE id = 42 AND fence <= $1", []any{token}},
		free:     "SELECT count(*) FROM seats WHERE id = 42 AND buyer IS NULL",
		selling: []statement{
			{"UPDATE seats SET buyer = $1 WHERE id = 42 AND fence = $2", []any{buyer, token}},
		},
	}, {
		name: "new_row",
		claiming: statement{`INSERT INTO bookings (id, fence) VALUES (42, $1) ON CONFLICT (id)
			DO UPDATE SET fence = excluded.fence WHERE bookings.fence <= excluded.fence`, []any{token}},
		free: "SELECT count(*) FROM bookings WHERE id = 42 AND buyer IS NULL",
		selling: []statement{
			{"UPDATE bookings SET buyer = $1 WHERE id = 42 AND fence = $2", []any{buyer, token}},
		},
	}, {
		name: "tables",
		claiming: statement{`INSERT INTO fences (name, fence) VALUES ($1, $2) ON CONFLICT (name)
			DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence`, []any{lock, token}},
		free: "SELECT free FROM stock WHERE id = 42",
		selling: []statement{
			{"UPDATE fences SET fence = $1 WHERE fence = $1 AND name = $2", []any{token, lock}},
			{"UPDATE stock SET free = free - 1 WHERE id = 42", nil},
			{"INSERT INTO sales (buyer, token) VALUES ($1, $2)", []any{buyer, token}},
		},
	}}
}

// claim claims, and only then looks how many are free.
func (w way) claim(database *sql.DB) (free int64, err error) {
	claimed, err := database.Exec(w.claiming.text, w.claiming.given...)
	if err != nil {
		return unclaimed, err
	}
	if rows, err := claimed.RowsAffected(); err != nil || rows == 0 {
		return unclaimed, errors.Join(err, errStale)
	}
	err = database.QueryRow(w.free).Scan(&free)
	return free, err
}

func (w way) sell(database *sql.DB) error {
	transaction, err := database.Begin()
	if err != nil {
		return err
	}
	defer transaction.Rollback() // after a Commit, nothing
	for n, step := range w.selling {
		done, err := transaction.Exec(step.text, step.given...)
		if err != nil {
			return err
		}
		if rows, err := done.RowsAffected(); err != nil || n == 0 && rows == 0 {
			return errors.Join(err, errStale)
		}
	}
	return transaction.Commit()
}

func open(url string) (*sql.DB, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return sql.Open("sqlite3", "file:"+path+"?_busy_timeout=10000")
	}
	if strings.HasPrefix(url, "postgres://") {
		return sql.Open("pgx", url)
	}
	return nil, errArguments
}
