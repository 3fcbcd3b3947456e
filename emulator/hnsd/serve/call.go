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
)

// Functions of one kind of object, by their number on the wire.
const (
	enumerate = iota
	create
	open
	modify
	query
	remove
	closeHandle
	functions
)

// caller is the process at the other end of a connection.
type caller struct {
	process uint64
	program string
}

// serveConn answers the calls of one thread until it goes away.
func (s *Service) serveConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := bufio.NewReader(conn)
	hello, err := readRequest(r)
	if err != nil || hello.op != opHello {
		return
	}
	who := caller{hello.handle, hello.text[0]}
	s.handles.connected(who.process)
	defer s.handles.disconnected(who.process)
	for {
		q, err := readRequest(r)
		if err != nil {
			return
		}
		if q.op == opEvents {
			s.streamEvents(ctx, conn, q)
			return
		}
		if q.op == opNotify {
			s.streamNotifications(ctx, who, conn)
			return
		}
		a, ok := s.answer(ctx, who, q, func() (<-chan struct{}, func()) { return watchEnd(conn, r) })
		if !ok {
			return
		}
		if _, err := conn.Write(a.frame()); err != nil {
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
func (s *Service) answer(ctx context.Context, who caller, q request, watch func() (<-chan struct{}, func())) (answer, bool) {
	begin := time.Now()
	name := functionName(q)
	a, ok := s.respond(ctx, who, q, watch)
	took := time.Since(begin)
	s.stats.count(who.program, name, !ok || a.result&0x80000000 != 0, took)
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		log.Info("call", "function", name, "program", who.program, "process", who.process, "guid", q.guid, "input", q.text[:],
			"result", a.result, "output", a.text[0], "took", took)
	}
	return a, ok
}

func (s *Service) respond(ctx context.Context, who caller, q request, watch func() (<-chan struct{}, func())) (answer, bool) {
	if e := s.life.refusal(); e != nil && q.op != opRoute {
		return failure(e), true
	}
	fault := s.faults.match(who.program, functionName(q), func() string { return s.subject(who, q) })
	fault.wait(ctx)
	switch fault.Action {
	case "drop":
		return answer{}, false
	case "fail":
		return failure(&hnsd.Error{Code: fault.Code, Text: fault.Text}), true
	case "skip":
		return s.pretend(who, q), true
	case "hang":
		if e := s.hang(ctx, watch); e != nil {
			return failure(e), true
		}
	case "empty":
		if q.op < opHNSCall && q.op%10 == enumerate {
			return answer{text: [2]*string{ref("[]")}}, true
		}
		if q.op == opHNSCall && strings.EqualFold(q.text[0], "GET") {
			return answer{text: [2]*string{ref(`{"Success":true,"Output":[]}`)}}, true
		}
	}
	a := s.timed(ctx, who, q, func() answer { return s.run(ctx, who, q) })
	switch {
	case fault.Action == "after":
		return failure(&hnsd.Error{Code: fault.Code, Text: fault.Text}), true
	case fault.Action == "strip" && a.text[0] != nil:
		a.text[0] = ref(stripped(*a.text[0], fault.Fields))
	}
	return a, true
}

func ref(text string) *string { return &text }

// hang waits until the rules are replaced, which lets the call go on; an error ends it.
func (s *Service) hang(ctx context.Context, watch func() (<-chan struct{}, func())) error {
	gone, stop := watch()
	defer stop()
	select {
	case <-s.faults.untilReplaced():
		return nil
	case <-gone:
	case <-s.life.untilDown():
	case <-ctx.Done():
	}
	return errCallFailed
}

// pretend is the answer of a call that did nothing, as successful as its caller can see: what it made cannot be read.
func (s *Service) pretend(who caller, q request) answer {
	if q.op == opHNSCall {
		return answer{text: [2]*string{ref(`{"Success":true,"Output":{}}`)}}
	}
	k := hnsd.Kind(q.op / 10)
	switch q.op % 10 {
	case enumerate:
		return answer{text: [2]*string{ref("[]")}}
	case query:
		return answer{text: [2]*string{ref("{}")}}
	case create:
		return answer{handle: s.handles.add(k, s.host.NewID(), who.process)}
	case open:
		return answer{handle: s.handles.add(k, q.guid, who.process)}
	}
	return answer{}
}

// subject is what the Match of a fault is looked for in: what the call brings, and the object that it is about.
func (s *Service) subject(who caller, q request) string {
	parts := append([]string{q.guid}, q.text[:]...)
	if q.op >= opHNSCall {
		return strings.Join(parts, "\n")
	}
	k, id := hnsd.Kind(q.op/10), q.guid
	if fn := q.op % 10; fn == modify || fn == query || fn == closeHandle {
		id, _ = s.handles.get(q.handle, k, who.process)
	}
	if o, ok := s.state.Load().Get(k, id); ok {
		parts = append(parts, o.Doc.String())
	}
	return strings.Join(parts, "\n")
}

func failure(err error) answer {
	var e *hnsd.Error
	if !errors.As(err, &e) {
		e = hnsd.ErrFailed.WithText("%v", err)
	}
	a := answer{result: e.Code}
	if e.Text != "" {
		record := e.Record()
		a.text[1] = &record
	}
	return a
}

// functionName is the call's name for counters, logs and faults.
func functionName(q request) string {
	if q.op == opHNSCall {
		parts := strings.Split(strings.Trim(q.text[1], "/"), "/")
		name := "HNSCall " + strings.ToUpper(q.text[0]) + " /" + parts[0] + "/"
		if len(parts) > 2 {
			name += "*/" + parts[2]
		}
		return name
	}
	if q.op == opRoute {
		return "IpForwardEntry " + q.text[0]
	}
	if q.op == opAddress {
		return "UnicastIpAddressEntry " + q.text[0]
	}
	kind := hnsd.Kind(q.op / 10).String()
	switch q.op % 10 {
	case enumerate:
		return "HcnEnumerate" + kind + "s"
	case query:
		return "HcnQuery" + kind + "Properties"
	}
	verbs := [functions]string{create: "Create", open: "Open", modify: "Modify", remove: "Delete", closeHandle: "Close"}
	if q.op%10 >= functions {
		return "unknown"
	}
	return "Hcn" + verbs[q.op%10] + kind
}

func (s *Service) run(ctx context.Context, who caller, q request) answer {
	if q.op == opHNSCall {
		return s.runV1(ctx, q)
	}
	if q.op == opRoute {
		if err := s.changeRoute(ctx, q); err != nil {
			return failure(err)
		}
		return answer{}
	}
	if q.op == opAddress {
		if err := s.changeAddress(ctx, q); err != nil {
			return failure(err)
		}
		return answer{}
	}
	k := hnsd.Kind(q.op / 10)
	if q.op >= 50 || q.op%10 >= functions {
		return failure(hnsd.ErrNotImplemented)
	}
	a, err := s.runHCN(ctx, who, k, q)
	if err != nil {
		return failure(err)
	}
	return a
}

func (s *Service) runHCN(ctx context.Context, who caller, k hnsd.Kind, q request) (a answer, err error) {
	state := s.state.Load()
	var id string
	switch q.op % 10 {
	case modify, query:
		if id, err = s.handles.get(q.handle, k, who.process); err != nil {
			return a, err
		}
	}
	switch q.op % 10 {
	case enumerate:
		ids, err := s.host.Enumerate(state, k, q.text[0])
		if err != nil {
			return a, err
		}
		data, err := json.Marshal(ids)
		text := string(data)
		a.text[0] = &text
		return a, err
	case create:
		id, err = s.create(ctx, who, k, q)
		if err == nil {
			a.handle = s.handles.add(k, id, who.process)
		}
		return a, err
	case open:
		if err := s.host.Open(state, k, q.guid); err != nil {
			return a, err
		}
		a.handle = s.handles.add(k, q.guid, who.process)
		return a, nil
	case modify:
		return a, s.write(ctx, func(state *hnsd.State) (*hnsd.State, error) { return s.host.Modify(state, k, id, q.text[0]) })
	case query:
		text, err := s.host.Query(state, k, id, q.text[0])
		if err == nil {
			a.text[0] = &text
		}
		return a, err
	case remove:
		return a, s.write(ctx, func(state *hnsd.State) (*hnsd.State, error) { return s.host.Delete(state, k, q.guid) })
	}
	return a, s.handles.close(q.handle, k, who.process)
}

func (s *Service) create(ctx context.Context, who caller, k hnsd.Kind, q request) (id string, err error) {
	parent := ""
	if k == hnsd.Endpoint {
		if parent, err = s.handles.get(q.handle, hnsd.Network, who.process); err != nil {
			return "", err
		}
	}
	err = s.write(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
		next, id, err = s.host.Create(state, k, parent, q.guid, q.text[0])
		return next, err
	})
	return id, err
}

func (s *Service) runV1(ctx context.Context, q request) (a answer) {
	var text string
	var err error
	if strings.EqualFold(q.text[0], "GET") {
		_, text, err = s.host.HNSCall(s.state.Load(), q.text[0], q.text[1], q.text[2])
	} else {
		err = s.write(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
			next, text, err = s.host.HNSCall(state, q.text[0], q.text[1], q.text[2])
			return next, err
		})
	}
	if err != nil {
		return failure(err)
	}
	a.text[0] = &text
	return a
}
