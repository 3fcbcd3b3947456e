package serve

import (
	"bufio"
	"context"
	"errors"
	"net"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/handles"
	"porthole.dev/porthole/emulator/hnsd/fault"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/wakeup"
)

// call is one call of a program.
type call struct {
	wire.Request
	conn    handles.Connection
	process uint64 // of the caller
	program string // file name of the caller
}

// function, subject and document are what the texts of a call are.
func (c call) function() string { return c.Text[0] }
func (c call) subject() string  { return c.Text[1] }
func (c call) document() string { return c.Text[2] }
func (c call) pid() uint32      { return uint32(c.Handle) }

// result is what a call that succeeds answers.
type result struct {
	text   string
	handle uint64
}

// serveConn answers the calls of one connection until it ends; then what they opened is closed.
func (s *Service) serveConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	hello, err := wire.ReadRequest(r)
	if err != nil || hello.Op != wire.Hello {
		return
	}

	c := call{conn: handles.Connection(s.connections.Add(1)), process: hello.Handle, program: hello.Text[0]}
	defer func() {
		if ctx.Err() == nil { // the end of the daemon closes no handle
			s.closed(ctx, c.conn)
		}
	}()
	for {
		if c.Request, err = wire.ReadRequest(r); err != nil {
			return
		}
		switch c.Op {
		case wire.HCS:
			a, ok := s.answer(ctx, c)
			if !ok {
				return
			}
			if _, err := conn.Write(a.Frame()); err != nil {
				return
			}
		case wire.HCSNotify:
			s.notify(ctx, conn, r, c)
			return
		case wire.HCSStream:
			s.stream(ctx, conn, r, c)
			return
		default:
			return
		}
	}
}

// closed closes the handles of a connection that has ended, and ends the silos that it made.
func (s *Service) closed(ctx context.Context, c handles.Connection) {
	s.runner.kill(ctx, s.systems.Released(ctx, s.handles.Close(c))...)
	s.silos.Closed(c)
}

// answer carries out a call as the rules for faults let it, counts and logs it. false: the connection is to be dropped.
func (s *Service) answer(ctx context.Context, c call) (wire.Answer, bool) {
	begin := time.Now()
	a, ok := s.underFaults(ctx, c)
	took := time.Since(begin)
	s.calls.Add(c.program, c.function(), !ok || a.Failed() && a.Result != hcsd.ErrPending.Code, took)
	klog.FromContext(ctx).V(4).Info("call", "function", c.function(), "program", c.program, "subject", c.subject(),
		"pid", c.pid(), "document", c.document(), "result", a.Result, "output", a.Text[0], "took", took, "answered", ok)
	return a, ok
}

// underFaults carries out a call, unless a fault rule delays it, fails it or leaves it unanswered. ok is false if the
// caller gets no answer.
func (s *Service) underFaults(ctx context.Context, c call) (a wire.Answer, ok bool) {
	rule := s.faults.Match(c.program, c.function(), func() string { return c.subject() + "\n" + c.document() })
	if rule.Delay > 0 && !wakeup.Pause(ctx, time.Duration(rule.Delay)*time.Millisecond) {
		return wire.Answer{}, false
	}
	injected := failure(&hcsd.Error{Code: rule.Code, Text: rule.Text})
	switch rule.Action {
	case "drop":
		return wire.Answer{}, false
	case "fail":
		return injected, true
	case "hang":
		if !s.released(ctx, rule) {
			return wire.Answer{}, false
		}
	}

	a = s.carryOut(ctx, c)
	switch rule.Action {
	case "after":
		return injected, true
	case "mute":
		return a, s.released(ctx, rule)
	}
	return a, true
}

// released waits until the rule of a call is replaced; false: the daemon ends before.
func (s *Service) released(ctx context.Context, rule fault.Rule) bool {
	replaced, release := s.faults.Hold(rule)
	defer release()
	select {
	case <-replaced:
		return true
	case <-ctx.Done():
		return false
	}
}

// carryOut has the operation of a call carried out.
func (s *Service) carryOut(ctx context.Context, c call) wire.Answer {
	operation := s.operations[c.function()]
	if operation == nil {
		return failure(hcsd.ErrNotImplemented)
	}
	r, err := operation(ctx, c)
	if err != nil {
		var known *hcsd.Error
		if !errors.As(err, &known) {
			klog.FromContext(ctx).Error(err, "HCS failed", "function", c.function(), "program", c.program,
				"subject", c.subject())
		}
		return failure(err)
	}
	a := wire.Answer{Handle: r.handle}
	if r.text != "" {
		a.Text[0] = &r.text
	}
	return a
}

// failure is the answer of a call that failed. What is under way is no failure for its caller and has no record.
func failure(err error) wire.Answer {
	var e *hcsd.Error
	if !errors.As(err, &e) {
		e = hcsd.ErrFailed.WithText("%v", err)
	}
	a := wire.Answer{Result: e.Code}
	if e.Text != "" && e.Code != hcsd.ErrPending.Code {
		record := e.Record()
		a.Text[1] = &record
	}
	return a
}
