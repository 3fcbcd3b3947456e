package serve

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// caller is the process at the other end of a connection.
type caller struct {
	process uint64
	program string
}

// call is one call of a program, decoded once. What is not about the call is zero.
type call struct {
	caller
	wire.Request
	name string // for counters, logs and faults

	kind     hnsd.Kind // of an HCN call: of its object
	function wire.Function
	hcn      bool
	id       string   // of the object that the call has a handle of, or else names
	parent   string   // of a creation: the network that it has a handle of
	settings hnsd.Doc // that it brings; nil if its text is no document

	v1 hnsd.V1 // of wire.HNSCall
}

// decode reads a call. Handles that are not the caller's are found out when it is carried out.
func (s *Service) decode(who caller, q wire.Request) call {
	c := call{caller: who, Request: q}
	c.kind, c.function, c.hcn = q.Op.Object()
	switch {
	case q.Op == wire.HNSCall:
		c.v1 = hnsd.ParseV1(q.Text[0], q.Text[1], q.Text[2])
	case c.hcn && (c.function == wire.Create || c.function == wire.Modify):
		c.settings = hnsd.ParseDoc(q.Text[0])
	}
	// The id from a handle is for faults and latency, which come before the call is carried out.
	if c.hcn {
		c.id = q.GUID
		switch c.function {
		case wire.Modify, wire.Query, wire.Close:
			c.id, _ = s.handles.ID(q.Handle, c.kind, who.process)
		case wire.Create:
			if c.kind == hnsd.Endpoint {
				c.parent, _ = s.handles.ID(q.Handle, hnsd.Network, who.process)
			}
		}
	}
	c.name = c.functionName()
	return c
}

// functionName is the call's name.
func (c call) functionName() string {
	switch c.Op {
	case wire.HNSCall:
		return "HNSCall " + c.v1.Name()
	case wire.Route:
		return "IpForwardEntry " + c.Text[0]
	case wire.Address:
		return "UnicastIpAddressEntry " + c.Text[0]
	case wire.Firewall:
		return "Firewall"
	case wire.Interface:
		return "IpInterfaceEntry " + c.Text[0]
	}

	// Names are those of the functions of computenetwork.dll.
	switch {
	case !c.hcn:
		return "unknown"
	case c.function == wire.Enumerate:
		return "HcnEnumerate" + c.kind.String() + "s"
	case c.function == wire.Query:
		return "HcnQuery" + c.kind.String() + "Properties"
	default:
		return "Hcn" + c.function.String() + c.kind.String()
	}
}

// about is what the Match of a fault is looked for in: what the call brings, and the object that it is about.
func (c call) about(state *hnsd.State) string {
	parts := append([]string{c.GUID}, c.Text[:]...)
	if o, ok := state.Get(c.kind, c.id); c.hcn && ok {
		parts = append(parts, o.Doc.String())
	}
	return strings.Join(parts, "\n")
}

// target tells on what the duration of the call depends.
// Of a creation the parent counts, since the object is not there yet.
func (c call) target(state *hnsd.State) hnsd.Target {
	if c.Op == wire.HNSCall {
		return state.TargetV1(c.v1)
	}
	id := c.id
	if c.function == wire.Create {
		id = c.parent
	}
	return state.Target(c.kind, id, c.hcn && c.function == wire.Create, c.settings)
}

// accept serves connections of programs until ctx ends.
func (s *Service) accept(ctx context.Context, listener net.Listener) error {
	return daemon.Serve(ctx, listener, s.serveConn)
}

// serveConn answers the calls of one thread until it goes away.
func (s *Service) serveConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	// The first message must be Hello, which says who calls; nothing else is answered before.
	hello, err := wire.ReadRequest(r)
	if err != nil || hello.Op != wire.Hello {
		return
	}

	// The handles of the process end with its last connection.
	who := caller{hello.Handle, hello.Text[0]}
	s.handles.Connected(who.process)
	defer s.handles.Disconnected(who.process)
	for {
		q, err := wire.ReadRequest(r)
		if err != nil {
			return
		}
		// Three operations are not calls in this sense: two turn the connection into a stream, one
		// is a question that Wine's DLLs ask often.
		switch q.Op {
		case wire.Events:
			if err := s.stack.StreamEvents(ctx, conn, q.Text[0]); err != nil {
				_, _ = conn.Write(failure(err).Frame()) // the connection ends in any case
			}
			return
		case wire.Notify:
			s.streamNotifications(ctx, who, conn)
			return
		case wire.Adapters: // asked several times for one question of a program: neither counted nor delayed
			text, err := s.stack.ListAdapters()
			if _, err := conn.Write(answerOf(withText(text), err).Frame()); err != nil {
				return
			}
			continue
		}

		a, ok := s.answer(ctx, who, q, func() (<-chan struct{}, func()) { return watchEnd(conn, r) })
		if !ok {
			return
		}
		if _, err := conn.Write(a.Frame()); err != nil {
			return
		}
	}
}

// watchEnd tells when the caller goes away while its call is under way. stop must be called before r is read again.
// Only one reader may be on r: the goroutine ends before stop returns.
func watchEnd(conn net.Conn, r *bufio.Reader) (gone <-chan struct{}, stop func()) {
	end := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A thread sends nothing while it waits for its answer: what comes is its end, or our own deadline.
		if _, err := r.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			close(end)
		}
	}()
	return end, func() {
		// A deadline in the past ends a Peek that is waiting.
		conn.SetReadDeadline(time.Unix(1, 0))
		<-done
		conn.SetReadDeadline(time.Time{})
	}
}

// answer decodes a call, carries it out as the rules for faults let it, counts and logs it. false: the connection is to
// be dropped. watch begins to look for the caller's end.
func (s *Service) answer(ctx context.Context, who caller, q wire.Request, watch watcher) (wire.Answer, bool) {
	begin := time.Now()
	c := s.decode(who, q)
	a, ok := s.underFaults(ctx, c, watch)
	took := time.Since(begin)
	s.calls.Add(who.program, c.name, !ok || a.Failed(), took)
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		log.Info("call", "function", c.name, "program", who.program, "process", who.process, "guid", q.GUID,
			"input", q.Text[:], "result", a.Result, "output", a.Text[0], "took", took)
	}
	return a, ok
}

// watcher begins to look for the caller's end, until stop is called.
type watcher = func() (gone <-chan struct{}, stop func())

// withText is a successful answer with a text.
func withText(text string) wire.Answer { return wire.Answer{Text: [2]*string{&text}} }

// answerOf is the answer of what has ended with an error, or a.
func answerOf(a wire.Answer, err error) wire.Answer {
	if err != nil {
		return failure(err)
	}
	return a
}

// failure is the answer for an error. An error that is none of HNS' is "unspecified", with its
// text.
func failure(err error) wire.Answer {
	var e *hnsd.Error
	if !errors.As(err, &e) {
		e = hnsd.ErrFailed.WithText("%v", err)
	}
	a := wire.Answer{Result: e.Code}
	if e.Text != "" {
		record := e.Record()
		a.Text[1] = &record
	}
	return a
}
