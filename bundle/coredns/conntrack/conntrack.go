// Package conntrack stands for github.com/mwitkow/go-conntrack, whose dialers count connections. CoreDNS makes
// none of them, but brings in its package by way of the settings of HTTP servers, and with it pages made of
// templates: with those a program holds every method that something might call by name, which is a third of
// CoreDNS.
package conntrack

import (
	"context"
	"net"
)

// dial connects to an address.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Option is a setting of a dialer.
type Option func(*dial)

// DialWithTracing and DialWithName say what is shown of a dialer: nothing is.
func DialWithTracing() Option         { return func(*dial) {} }
func DialWithName(name string) Option { return func(*dial) {} }

// DialWithDialContextFunc has a dialer connect by f.
func DialWithDialContextFunc(f func(context.Context, string, string) (net.Conn, error)) Option {
	return func(d *dial) { *d = f }
}

// NewDialContextFunc returns a dialer.
func NewDialContextFunc(options ...Option) func(context.Context, string, string) (net.Conn, error) {
	d := dial((&net.Dialer{}).DialContext)
	for _, o := range options {
		o(&d)
	}
	return d
}
