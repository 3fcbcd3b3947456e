// Package httpserve serves the short HTTP pages of a program: status, health, metrics. It is not for streams: the
// kubelet's API, whose answers last as long as a user looks at them, has a server of its own.
package httpserve

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// Limits for one client: none may hold a connection for ever without asking, or make the server keep more than a small
// request.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 1 << 14
)

// Start serves handler on listener, which it owns from now on, until stop is called. stop closes the listener and every
// connection at once, may be called several times, and does not wait for handlers that are still running.
//
// If serving ends without stop, failed is called once with the reason, from another goroutine; failed may be nil.
func Start(listener net.Listener, handler http.Handler, failed func(error)) (stop func()) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes}

	go func() {
		err := server.Serve(listener)
		if failed != nil && !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return func() {
		_ = server.Close()   // answers are short: nothing is lost
		_ = listener.Close() // in case Serve has not begun yet; closed already otherwise
	}
}
