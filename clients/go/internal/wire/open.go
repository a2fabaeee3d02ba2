package wire

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"
)

// Login is what a new connection says first.
type Login struct {
	User, Password string
	Database       int
	Name           string
}

// Open connects and logs in, for as long as the context lasts, whatever dial makes of it.
func Open(ctx context.Context, dial func(context.Context) (net.Conn, Login, error), limit time.Duration) (*Conn, error) {
	type dialled struct {
		net   net.Conn
		login Login
		err   error
	}
	result := make(chan dialled, 1)
	go func() {
		established, login, err := dial(ctx)
		result <- dialled{established, login, err}
	}()
	var got dialled
	select {
	case got = <-result:
	case <-ctx.Done():
		go func() {
			if late := <-result; late.err == nil {
				_ = late.net.Close()
			}
		}()
		return nil, ErrSilent
	}
	if got.err != nil {
		return nil, got.err
	}
	conn := New(got.net)
	if err := conn.logIn(ctx, limit, got.login); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (c *Conn) logIn(ctx context.Context, limit time.Duration, login Login) error {
	var calls []*Call
	switch {
	case login.User != "":
		calls = append(calls, c.Start(limit, "AUTH", login.User, login.Password))
	case login.Password != "":
		calls = append(calls, c.Start(limit, "AUTH", login.Password))
	}
	if login.Database != 0 {
		calls = append(calls, c.Start(limit, "SELECT", login.Database))
	}
	named := c.Start(limit, "CLIENT", "SETNAME", login.Name)
	for _, call := range append(calls, named) {
		select {
		case <-call.done:
		case <-ctx.Done():
			return ErrSilent
		}
		if call.Err != nil && !(call == named && nameless(call.Err)) {
			return call.Err
		}
	}
	return nil
}

// nameless: a name is not allowed here, which harms nobody.
func nameless(err error) bool {
	var said ServerError
	return errors.As(err, &said) && (strings.HasPrefix(string(said), "NOPERM") ||
		strings.HasPrefix(string(said), "ERR unknown"))
}
