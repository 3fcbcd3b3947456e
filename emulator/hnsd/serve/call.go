package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/fault"
	"porthole.dev/porthole/emulator/wire"
)

// caller is the process at the other end of a connection.
type caller struct {
	process uint64
	program string
}

// programs answers the calls of the host's programs.
type programs struct{ *Service }

// serveConn answers the calls of one thread until it goes away.
func (s programs) serveConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	hello, err := wire.ReadRequest(r)
	if err != nil || hello.Op != wire.Hello {
		return
	}

	who := caller{hello.Handle, hello.Text[0]}
	s.handles.connected(who.process)
	defer s.handles.disconnected(who.process)
	for {
		q, err := wire.ReadRequest(r)
		if err != nil {
			return
		}
		switch q.Op {
		case wire.Events:
			s.streamEvents(ctx, conn, q)
			return
		case wire.Notify:
			s.streamNotifications(ctx, who, conn)
			return
		case wire.Adapters: // asked several times for one question of a program: neither counted nor delayed
			if _, err := conn.Write(s.listAdapters().Frame()); err != nil {
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
func watchEnd(conn net.Conn, r *bufio.Reader) (gone <-chan struct{}, stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		// A thread sends nothing while it waits for its answer: what comes is its end, or our own deadline.
		if _, err := r.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			close(end)
		}
	}()
	return end, func() {
		conn.SetReadDeadline(time.Unix(1, 0))
		<-done
		conn.SetReadDeadline(time.Time{})
	}
}

// answer runs a call with its faults, counts and logs it. false: the connection is to be dropped. watch begins to look
// for the caller's end.
func (s programs) answer(ctx context.Context, who caller, q wire.Request,
	watch func() (<-chan struct{}, func())) (wire.Answer, bool) {
	begin := time.Now()
	name := functionName(q)
	a, ok := s.respond(ctx, who, q, watch)
	took := time.Since(begin)
	s.calls.Add(who.program, name, !ok || a.Failed(), took)
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		log.Info("call", "function", name, "program", who.program, "process", who.process, "guid", q.GUID, "input",
			q.Text[:],
			"result", a.Result, "output", a.Text[0], "took", took)
	}
	return a, ok
}

// respond answers one call as the faults that are set say, and by running it if none says otherwise. It returns false
// if the caller is to get no answer. The actions differ in whether the call takes effect: "drop", "fail", "skip" and
// "empty" leave it out, "after" carries it out and then reports a failure, "forget" and "late" carry it out in part
// and report success.
func (s programs) respond(ctx context.Context, who caller, q wire.Request,
	watch func() (<-chan struct{}, func())) (wire.Answer, bool) {
	if e := s.life.refusal(); e != nil && !q.Op.OnStack() {
		return failure(e), true
	}
	fault := s.faults.Match(who.program, functionName(q), func() string { return s.subject(who, q) })
	delay(ctx, fault)
	var withheld []any
	switch fault.Action {
	case "drop":
		return wire.Answer{}, false
	case "fail":
		return failure(&hnsd.Error{Code: fault.Code, Text: fault.Text}), true
	case "skip":
		return s.pretend(who, q), true
	case "forget", "late":
		q.Text[0], withheld = withoutPolicies(q.Text[0], fault.Fields)
	case "hang":
		if e := s.hang(ctx, fault, watch); e != nil {
			return failure(e), true
		}
	case "empty":
		if q.Op.Calls(wire.Enumerate) {
			return withText("[]"), true
		}
		if q.Op == wire.HNSCall && strings.EqualFold(q.Text[0], "GET") {
			return withText(`{"Success":true,"Output":[]}`), true
		}
	}

	a := s.timed(ctx, who, q, func() wire.Answer { return s.run(ctx, who, q) })
	switch {
	case fault.Action == "late":
		s.catchUp(ctx, who, q, a, lateness{withheld, time.Duration(fault.LateMs) * time.Millisecond})
	case fault.Action == "mute":
		if e := s.hang(ctx, fault, watch); e != nil {
			return wire.Answer{}, false // nobody is there for the answer
		}
	case fault.Action == "after":
		return failure(&hnsd.Error{Code: fault.Code, Text: fault.Text}), true
	case fault.Action == "strip" && a.Text[0] != nil:
		without := stripped(*a.Text[0], fault.Fields)
		a.Text[0] = &without
	case fault.Action == "degrade" && a.Text[0] != nil:
		worse := degraded(*a.Text[0])
		a.Text[0] = &worse
	}
	return a, true
}

// withText is a successful answer with a text.
func withText(text string) wire.Answer { return wire.Answer{Text: [2]*string{&text}} }

// hang waits until the rule of a call is replaced, which lets the call go on; an error ends it.
func (s programs) hang(ctx context.Context, rule fault.Rule, watch func() (<-chan struct{}, func())) error {
	gone, stop := watch()
	defer stop()
	replaced, release := s.faults.Hold(rule)
	defer release()
	select {
	case <-replaced:
		return nil
	case <-gone:
	case <-s.life.untilDown():
	case <-ctx.Done():
	}
	return hnsd.ErrCallFailed
}

// pretend is the answer of a call that did nothing, as successful as its caller can see: what it made cannot be read.
func (s programs) pretend(who caller, q wire.Request) wire.Answer {
	if q.Op == wire.HNSCall {
		return withText(`{"Success":true,"Output":{}}`)
	}
	k, fn, ok := q.Op.Object()
	if !ok {
		return wire.Answer{}
	}

	switch fn {
	case wire.Enumerate:
		return withText("[]")
	case wire.Query:
		return withText("{}")
	case wire.Create:
		return wire.Answer{Handle: s.handles.add(k, s.host.NewID(), who.process)}
	case wire.Open:
		return wire.Answer{Handle: s.handles.add(k, q.GUID, who.process)}
	}
	return wire.Answer{}
}

// subject is what the Match of a fault is looked for in: what the call brings, and the object that it is about.
func (s programs) subject(who caller, q wire.Request) string {
	parts := append([]string{q.GUID}, q.Text[:]...)
	k, fn, ok := q.Op.Object()
	if !ok {
		return strings.Join(parts, "\n")
	}

	id := q.GUID
	if fn == wire.Modify || fn == wire.Query || fn == wire.Close {
		id, _ = s.handles.get(q.Handle, k, who.process)
	}
	if o, ok := s.state.Load().Get(k, id); ok {
		parts = append(parts, o.Doc.String())
	}
	return strings.Join(parts, "\n")
}

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

// functionName is the call's name for counters, logs and faults.
func functionName(q wire.Request) string {
	switch q.Op {
	case wire.HNSCall:
		parts := strings.Split(strings.Trim(q.Text[1], "/"), "/")
		name := "HNSCall " + strings.ToUpper(q.Text[0]) + " /" + parts[0] + "/"
		if len(parts) > 2 {
			name += "*/" + parts[2]
		}
		return name
	case wire.Route:
		return "IpForwardEntry " + q.Text[0]
	case wire.Address:
		return "UnicastIpAddressEntry " + q.Text[0]
	case wire.Firewall:
		return "Firewall"
	case wire.Interface:
		return "IpInterfaceEntry " + q.Text[0]
	}

	switch k, fn, ok := q.Op.Object(); {
	case !ok:
		return "unknown"
	case fn == wire.Enumerate:
		return "HcnEnumerate" + k.String() + "s"
	case fn == wire.Query:
		return "HcnQuery" + k.String() + "Properties"
	default:
		return "Hcn" + fn.String() + k.String()
	}
}

// run carries out a call without faults. An operation that is not known is an error that programs see, not one of the
// daemon.
func (s programs) run(ctx context.Context, who caller, q wire.Request) wire.Answer {
	var a wire.Answer
	var err error
	switch _, _, ok := q.Op.Object(); {
	case q.Op == wire.HNSCall:
		a, err = s.runV1(ctx, q)
	case q.Op == wire.Route:
		err = s.changeRoute(ctx, q)
	case q.Op == wire.Address:
		err = s.changeAddress(ctx, q)
	case q.Op == wire.Interface:
		a, err = s.hostInterface(ctx, q)
	case q.Op == wire.Firewall:
		err = s.walls.set(ctx, q)
	case ok:
		a, err = s.runHCN(ctx, who, q)
	default:
		err = hnsd.ErrNotImplemented
	}
	if err != nil {
		return failure(err)
	}
	return a
}

// runHCN answers a call on an object.
func (s programs) runHCN(ctx context.Context, who caller, q wire.Request) (a wire.Answer, err error) {
	state := s.state.Load()
	k, fn, _ := q.Op.Object()
	switch fn {
	case wire.Enumerate:
		ids, err := s.host.Enumerate(state, k, q.Text[0])
		if err != nil {
			return a, err
		}
		data, err := json.Marshal(ids)
		return withText(string(data)), err

	case wire.Create:
		id, err := s.create(ctx, who, k, q)
		if err == nil {
			a.Handle = s.handles.add(k, id, who.process)
		}
		return a, err

	case wire.Open:
		if err := s.host.Open(state, k, q.GUID); err != nil {
			return a, err
		}
		a.Handle = s.handles.add(k, q.GUID, who.process)
		return a, nil

	case wire.Modify:
		id, err := s.handles.get(q.Handle, k, who.process)
		if err != nil {
			return a, err
		}
		return a, s.write(ctx, func(state *hnsd.State) (*hnsd.State, error) {
			return s.host.Modify(state, k, id, q.Text[0])
		})

	case wire.Query:
		id, err := s.handles.get(q.Handle, k, who.process)
		if err != nil {
			return a, err
		}
		text, err := s.host.Query(state, k, id, q.Text[0])
		if err != nil {
			return a, err
		}
		return withText(text), nil

	case wire.Delete:
		return a, s.write(ctx, func(state *hnsd.State) (*hnsd.State, error) { return s.host.Delete(state, k, q.GUID) })
	}
	return a, s.handles.close(q.Handle, k, who.process)
}

// create makes an object and returns its id. A new namespace is bound, in the same write, to the Linux network
// namespace that was announced for its id, so that no reader sees it without.
func (s programs) create(ctx context.Context, who caller, k hnsd.Kind, q wire.Request) (id string, err error) {
	parent := ""
	if k == hnsd.Endpoint {
		if parent, err = s.handles.get(q.Handle, hnsd.Network, who.process); err != nil {
			return "", err
		}
	}
	err = s.write(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
		next, id, err = s.host.Create(state, k, parent, q.GUID, q.Text[0])
		if path := s.guests.path(id); err == nil && k == hnsd.Namespace && path != "" {
			next = next.Bind(id, path)
		}
		return next, err
	})
	if err == nil && k == hnsd.Namespace {
		s.guests.made(id)
	}
	return id, err
}

func (s programs) runV1(ctx context.Context, q wire.Request) (wire.Answer, error) {
	method, path, body := q.Text[0], q.Text[1], q.Text[2]
	var text string
	var err error
	if strings.EqualFold(method, "GET") {
		_, text, err = s.host.HNSCall(s.state.Load(), method, path, body)
	} else {
		err = s.write(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
			next, text, err = s.host.HNSCall(state, method, path, body)
			return next, err
		})
	}
	return withText(text), err
}
