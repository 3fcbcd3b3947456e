// Package relay carries TCP connections from this machine's loopback into the namespaces of a local cluster, so that
// the machine's own network needs no link, address or route for it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
)

// Map is one relayed port.
type Map struct {
	// Listen and Target are host:port; Netns is the path of the namespace that Target is in.
	Listen, Target, Netns string
}

// ParseMap reads LISTEN=TARGET@NETNS.
func ParseMap(s string) (Map, error) {
	listen, rest, ok := strings.Cut(s, "=")
	target, netns, ok2 := strings.Cut(rest, "@")
	if !ok || !ok2 {
		return Map{}, fmt.Errorf(
			"--map %q: want LISTEN=TARGET@NETNS, for example 127.0.0.1:6443=10.99.0.11:6443@/var/run/netns/porthole-lin01", s)
	}
	return Map{Listen: listen, Target: target, Netns: netns}, nil
}

// Run relays until ctx ends or a port cannot be listened on.
func Run(ctx context.Context, maps []Map) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(maps))
	for _, m := range maps {
		go func() { errs <- serve(ctx, m) }()
	}
	for range maps {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// serve accepts the connections of one mapping until ctx ends. Connections that are open then go on until the program
// ends.
func serve(ctx context.Context, m Map) error {
	listener, err := net.Listen("tcp", m.Listen)
	if err != nil {
		return fmt.Errorf("relaying %s: %w", m.Listen, err)
	}

	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Accepting a connection", "listen", m.Listen)
			if !wakeup.Pause(ctx, 50*time.Millisecond) { // out of files: let some close
				return nil
			}
			continue
		}
		go join(ctx, conn.(*net.TCPConn), m)
	}
}

// join connects from with the target of m, which is dialed inside m's network namespace, and copies both ways until
// both have ended. It closes from.
func join(ctx context.Context, from *net.TCPConn, m Map) {
	defer from.Close()
	var to net.Conn
	err := platform.InNetns(m.Netns, func() (err error) {
		to, err = net.DialTimeout("tcp", m.Target, 5*time.Second)
		return err
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Target does not answer", "target", m.Target, "err", err)
		return
	}
	defer to.Close()
	var wg sync.WaitGroup
	wg.Go(func() { copyHalf(to.(*net.TCPConn), from) })
	wg.Go(func() { copyHalf(from, to.(*net.TCPConn)) })
	wg.Wait()
}

// copyHalf copies one direction and passes its end on, so that half-closed connections work.
func copyHalf(dst, src *net.TCPConn) {
	if _, err := io.Copy(dst, src); err != nil && !errors.Is(err, net.ErrClosed) {
		_ = dst.SetLinger(0) // pass the reset on; a connection that has ended needs none
		dst.Close()
		return
	}
	_ = dst.CloseWrite()
}
