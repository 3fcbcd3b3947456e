package serve

import (
	"bufio"
	"context"
	"net"
	"strconv"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/wire"
)

// notify makes a connection a stream of notifications. What happened before is sent first.
func (s *Service) notify(ctx context.Context, conn net.Conn, r *bufio.Reader, c call) {
	callback, err := s.systems.Register(c.Text[0], c.pid())
	if err != nil {
		_, _ = conn.Write(failure(err).Frame()) // the program sees the end of the connection otherwise
		return
	}
	defer callback.End()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = r.Peek(1) // a subscriber sends nothing: this is its end
	}()
	if _, err := conn.Write(wire.Answer{}.Frame()); err != nil {
		return
	}
	for {
		for _, n := range callback.Next() {
			if _, err := conn.Write(wire.Answer{Result: n.Type, Handle: uint64(n.Status)}.Frame()); err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-callback.Ready():
		}
	}
}

// stream makes a connection one of a program's standard streams.
func (s *Service) stream(ctx context.Context, conn net.Conn, r *bufio.Reader, c call) {
	number, err := strconv.Atoi(c.Text[1])
	if err != nil || number < 0 || number > 2 {
		_, _ = conn.Write(failure(hcsd.ErrInvalidArgument).Frame())
		return
	}
	caller := container.Caller{Conn: conn, Reader: r, Process: c.process}
	if err := s.systems.Streams(c.Text[0], c.pid()).Carry(ctx, number, caller); err != nil {
		_, _ = conn.Write(failure(err).Frame())
	}
}
