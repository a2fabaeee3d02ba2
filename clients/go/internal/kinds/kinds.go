// Package kinds says what an error of a call to a server means: the table of all clients, as one of them has it.
package kinds

import (
	"crypto/tls"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// What an error is. The public package tells of each.
var (
	ErrBusy        = errors.New("others hold the lock")
	ErrLost        = errors.New("the lock is lost")
	ErrDeadlock    = errors.New("to wait would be a deadlock")
	ErrNotAlone    = errors.New("the lock has other holders")
	ErrRefused     = errors.New("the server refuses")
	ErrUnavailable = errors.New("the server cannot be reached")
	ErrMisuse      = errors.New("wrong use")
	// ErrPassing is what is tried again; it is told as ErrUnavailable when time is up.
	ErrPassing = errors.New("passing")
)

// Call is which column of the table counts.
type Call int

// The columns.
const (
	Acquiring Call = iota
	Renewing
	Releasing
)

// classes: an error reply is of the first one whose text begins it. It says the same as clients/protocol/errors.json.
var classes = []struct {
	begins string
	kinds  [3]error // of an acquire, a renewal, a release
}{
	{"NOTHELD", same(ErrLost)},
	{"NOTOWNER", same(ErrLost)},
	{"FENCED", same(ErrLost)},
	{"WRONGTYPE", [3]error{ErrMisuse, ErrLost, ErrLost}},
	{"NOTALONE", [3]error{ErrNotAlone, ErrNotAlone, ErrMisuse}},
	{"DEADLOCK", [3]error{ErrDeadlock, ErrMisuse, ErrMisuse}},
	{"MAXWAITERS", same(ErrRefused)},
	{"OOM", same(ErrRefused)},
	{"NOPERM", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"NOAUTH", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"WRONGPASS", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"DENIED", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"NOPROTO", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"AHEAD", same(ErrRefused)},
	{"ERR unknown command", same(ErrRefused)},
	{"ERR invalid password", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"ERR AUTH", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"ERR Protocol error: unauthenticated", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"ERR KEEP needs the command CLIENT", same(ErrRefused)},
	{"ERR no fencing token is left", same(ErrRefused)},
	{"ERR a fault inside the module", [3]error{ErrRefused, ErrPassing, ErrRefused}},
	{"ERR max number of clients", same(ErrPassing)},
	{"ERR", same(ErrMisuse)},
	{"CROSSSLOT", same(ErrMisuse)},
	{"LOADING", same(ErrPassing)},
	{"BUSY", same(ErrPassing)},
	{"NOREPLICAS", same(ErrPassing)},
	{"MISCONF", same(ErrPassing)},
	{"READONLY", same(ErrPassing)},
	{"MASTERDOWN", same(ErrPassing)},
	{"UNBLOCKED", same(ErrPassing)},
	{"CLUSTERDOWN", same(ErrPassing)},
	{"TRYAGAIN", same(ErrPassing)},
	{"MOVED", same(ErrPassing)},
	{"ASK", same(ErrPassing)},
	{"REDIRECT", same(ErrPassing)},
	{"", same(ErrMisuse)},
}

// Classes is how many there are.
func Classes() int { return len(classes) }

func same(kind error) [3]error { return [3]error{kind, kind, kind} }

// Of says what an error of a call is. All that is no reply of the server is passing.
func Of(call Call, err error) error {
	text, isReply := Text(err)
	if !isReply {
		var certificate *tls.CertificateVerificationError
		if errors.As(err, &certificate) {
			return ErrRefused
		}
		return ErrPassing
	}
	for _, class := range classes {
		if strings.HasPrefix(text, class.begins) {
			return class.kinds[call]
		}
	}
	return ErrMisuse
}

// Text is that of an error reply.
func Text(err error) (text string, isReply bool) {
	var said wire.ServerError
	if errors.As(err, &said) {
		return string(said), true
	}
	var other redis.Error // a Sentinel's, while dialling
	if errors.As(err, &other) {
		return other.Error(), true
	}
	return "", false
}

// Begins says whether it is an error reply that begins with one of these words.
func Begins(err error, words ...string) bool {
	text, isReply := Text(err)
	for _, word := range words {
		if isReply && strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}
