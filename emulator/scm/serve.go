package scm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/wire"
)

// Serve answers programs of the host until the context ends.
func (m *Manager) Serve(ctx context.Context, l net.Listener) error {
	s := &server{m: m}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serving the service manager: %w", err)
		}
		go s.serve(ctx, conn)
	}
}

// server answers programs of the host.
type server struct {
	m      *Manager
	faults faults
}

// serve answers one thread of a program.
func (s *server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	hello, err := wire.ReadRequest(conn)
	if err != nil || hello.Op != wire.Hello {
		return
	}
	caller := caller{windowsPID: uint32(hello.Handle)}
	for {
		q, err := wire.ReadRequest(conn)
		if err != nil {
			return
		}
		caller.pid = int(q.Handle)
		// A thread that dispatches becomes the one that its service's controls go to.
		if q.Op == wire.SCMDispatch {
			s.dispatch(ctx, conn, caller.pid)
			return
		}

		answer, code := s.call(caller, q)
		klog.FromContext(ctx).V(4).
			Info("Call", "program", hello.Text[0], "function", q.Text[0], "service", q.Text[1], "code", code)
		if _, err := conn.Write(wire.Answer{Result: uint32(code), Text: [2]*string{&answer, nil}}.Frame()); err != nil {
			return
		}
	}
}

// dispatch serves the connection of a service until the service has stopped or its process has ended.
func (s *server) dispatch(ctx context.Context, conn net.Conn, pid int) {
	name, d, code := s.m.Dispatch(pid)
	if code != OK {
		_, _ = conn.Write(wire.Answer{Result: uint32(code)}.Frame())
		return
	}
	defer close(d.gone)
	if _, err := conn.Write(wire.Answer{Text: [2]*string{&name, nil}}.Frame()); err != nil {
		return
	}
	broken := make(chan struct{})
	replies := make(chan Code, 1)
	go func() { // reads all the time, so that the end of the process is seen
		defer close(broken)
		for {
			q, err := wire.ReadRequest(conn)
			if err != nil {
				return
			}
			replies <- Code(q.Handle)
		}
	}()

	for {
		select {
		case <-ctx.Done():
			return
		case <-broken:
			return
		case e := <-d.events:
			if _, err := conn.Write(wire.Answer{Result: e.kind, Handle: uint64(e.control),
				Text: [2]*string{&e.args, nil}}.Frame()); err != nil || e.done == nil {
				return
			}
			select {
			case code := <-replies:
				e.done <- code
			case <-broken:
				return
			}
		}
	}
}

// caller is a program that calls.
type caller struct {
	pid        int
	windowsPID uint32
}

// call answers one call of a program, or of `porthole host services`.
func (s *server) call(c caller, q wire.Request) (answer string, code Code) {
	name, args := q.Text[1], fields{rest: q.Text[2]}
	// Faults that were set come before everything else.
	if code := s.faults.strike(q.Text[0], name); code != OK {
		return "", code
	}
	switch q.Text[0] {
	case "fault":
		fault, err := ParseFault(q.Text[2])
		if err != nil {
			return "", InvalidParameter
		}
		s.faults.add(fault)
		return "null", OK
	case "ping":
		return "", OK
	case "create":
		config := Config{Name: name}
		if code := takeConfig(&config, &args); code != OK {
			return "", code
		}
		return "", s.m.Create(config, c.pid)
	case "open":
		return "", s.m.Open(name, c.pid)
	case "close":
		return "", s.m.Close(name, c.pid)
	case "delete":
		return "", s.m.Delete(name)
	case "change":
		return "", s.m.Change(name, func(config *Config) Code { return takeConfig(config, &args) })
	case "change2":
		return "", s.m.Change(name, func(config *Config) Code { return takeConfig2(config, &args) })
	case "start":
		return "", s.m.Start(name, args.list())
	case "control":
		status, code := s.m.Control(name, args.number())
		return status.fields(), code
	case "report":
		return "", s.m.Report(c.pid, c.windowsPID, args.status())
	case "event":
		s.application(name, &args)
		return "", OK
	case "list":
		return s.enumerate(args.number(), args.number()), OK
	case "initiate":
		return "", restarts{s.m}.initiate(time.Duration(args.number())*time.Second, name)
	case "abort":
		return "", restarts{s.m}.abort()
	case "shutdown":
		return toJSON(s.m.Shutdown()), OK
	case "services":
		return toJSON(slices.DeleteFunc(s.m.List(), func(l Listed) bool { return l.Builtin })), OK
	}

	return s.describe(q.Text[0], name, &args)
}

// describe answers what a program wants to know of one service.
func (s *server) describe(what, name string, args *fields) (answer string, code Code) {
	l, code := s.m.Get(name)
	if code != OK {
		return "", code
	}
	switch what {
	case "status":
		return l.Status.fields(), OK
	case "config":
		return configFields(l.Config), OK
	case "config2":
		return config2Fields(l.Config, args.number())
	case "dependents":
		return records(s.m.Dependents(name), args.number()), OK
	}
	return "", InvalidParameter
}

// toJSON is "null" for what cannot be encoded.
func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(data)
}

// application adds an entry that a service wrote.
func (s *server) application(source string, args *fields) {
	level := map[uint32]string{1: "Error", 2: "Warning", 4: "Information"}[args.number()]
	s.m.events.add(Event{Log: "Application", Source: source, ID: args.number(), Level: level,
		Text: strings.Join(args.list(), "\n")})
}

// enumerate lists the services of a type and activity (SERVICE_ACTIVE 1, SERVICE_INACTIVE 2, SERVICE_STATE_ALL 3).
func (s *server) enumerate(kind, activity uint32) string {
	var list []Listed
	for _, l := range s.m.List() {
		if l.Type&kind != 0 {
			list = append(list, l)
		}
	}
	return records(list, activity)
}

// records lists services for the DLL; bit 0 of activity means those that are active, bit 1 the
// stopped ones.
func records(list []Listed, activity uint32) string {
	var b strings.Builder
	for _, l := range list {
		bit := uint32(1)
		if l.Status.State == Stopped {
			bit = 2
		}
		if activity&bit != 0 {
			b.WriteString(text(l.Name) + text(l.DisplayName) + l.Status.fields() + wire.Record)
		}
	}
	return b.String()
}

// fields reads the arguments of a call one by one. What is missing is zero.
type fields struct{ rest string }

// next takes the next field; "" at the end.
func (f *fields) next() string {
	field, rest, _ := strings.Cut(f.rest, wire.Field)
	f.rest = rest
	return field
}

func (f *fields) number() uint32 {
	n, _ := strconv.ParseUint(f.next(), 10, 32) // what the DLL prints is a number
	return uint32(n)
}

func (f *fields) flag() bool { return f.number() != 0 }

// text replaces what it points to, unless the field is NULL.
func (f *fields) text(to *string) {
	if s := f.next(); s != wire.Null {
		*to = s
	}
}

// list reads a list; nil if there is none.
func (f *fields) list() []string {
	s := strings.TrimSuffix(f.next(), wire.Item)
	if s == "" || s == wire.Null {
		return nil
	}
	return strings.Split(s, wire.Item)
}

// status reads what a service reports of itself, in the order of SERVICE_STATUS.
func (f *fields) status() Status {
	f.number() // the type
	return Status{State: State(f.number()), Accepts: f.number(), Exit: Code(f.number()), Specific: f.number(),
		Check: f.number(), Hint: f.number()}
}

// text, number, flag and list write fields; the methods of fields read them.
func text(s string) string { return s + wire.Field }

func number[N ~uint32 | ~int](n N) string { return strconv.FormatUint(uint64(n), 10) + wire.Field }

func flag(b bool) string {
	if b {
		return number(1)
	}
	return number(0)
}

func list(items []string) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString(item + wire.Item)
	}
	return text(b.String())
}

// ownProcess is the only type of service that is known here (SERVICE_WIN32_OWN_PROCESS).
const ownProcess = 0x10

// fields is the status in the order of SERVICE_STATUS_PROCESS.
func (s Status) fields() string {
	return number(uint32(ownProcess)) + number(uint32(s.State)) + number(s.Accepts) + number(uint32(s.Exit)) +
		number(s.Specific) + number(s.Check) +
		number(s.Hint) + number(s.PID)
}

// takeConfig reads what CreateService and ChangeServiceConfig say.
func takeConfig(c *Config, f *fields) Code {
	for _, to := range []*uint32{&c.Type, &c.Start, &c.ErrorControl} {
		if n := f.number(); n != noChange {
			*to = n
		}
	}
	f.text(&c.Path)
	f.text(&c.Group)
	if dependencies := f.next(); dependencies != wire.Null {
		c.Dependencies = (&fields{rest: dependencies}).list()
	}
	f.text(&c.Account)
	f.text(&c.DisplayName)
	if c.Start < StartAutomatic || c.Start > StartDisabled {
		return InvalidParameter
	}
	return OK
}

// configFields is the configuration in the order of QUERY_SERVICE_CONFIG, without the tag.
func configFields(c Config) string {
	return number(c.Type) + number(c.Start) + number(c.ErrorControl) + text(c.Path) + text(c.Group) +
		list(c.Dependencies) + text(c.Account) + text(c.DisplayName)
}

// The levels of ChangeServiceConfig2 (winsvc.h).
const (
	levelDescription = 1 + iota
	levelFailureActions
	levelDelayed
	levelFailureFlag
	levelSID
	levelPrivileges
	levelPreshutdown
)

// takeConfig2 reads the fields of one level of ChangeServiceConfig2 into c.
func takeConfig2(c *Config, f *fields) Code {
	switch f.number() {
	case levelDescription:
		f.text(&c.Description)
	case levelFailureActions:
		takeFailure(&c.Failure, f)
	case levelDelayed:
		c.Delayed = f.flag()
	case levelFailureFlag:
		c.Failure.NonCrash = f.flag()
	case levelSID:
		c.SIDType = f.number()
	case levelPrivileges:
		c.Privileges = f.list()
	case levelPreshutdown:
		c.PreshutdownTimeout = f.number()
	default:
		return InvalidLevel
	}
	return OK
}

// takeFailure reads recovery actions. Without an array those of before stay; with an empty one there are none.
func takeFailure(to *Failure, f *fields) {
	reset := f.number()
	f.text(&to.Message)
	f.text(&to.Command)
	count := f.number()
	if count == noChange {
		return
	}
	to.Reset, to.Actions = reset, nil
	for range min(count, 1024) {
		to.Actions = append(to.Actions, Action{Type: f.number(), Delay: f.number()})
	}
}

// config2Fields writes the fields of one level of QueryServiceConfig2. A level that is not known is the error of
// Windows.
func config2Fields(c Config, level uint32) (string, Code) {
	switch level {
	case levelDescription:
		return text(c.Description), OK
	case levelFailureActions:
		out := number(c.Failure.Reset) + text(c.Failure.Message) + text(c.Failure.Command) +
			number(len(c.Failure.Actions))
		for _, a := range c.Failure.Actions {
			out += number(a.Type) + number(a.Delay)
		}
		return out, OK
	case levelDelayed:
		return flag(c.Delayed), OK
	case levelFailureFlag:
		return flag(c.Failure.NonCrash), OK
	case levelSID:
		return number(c.SIDType), OK
	case levelPrivileges:
		return list(c.Privileges), OK
	case levelPreshutdown:
		return number(c.PreshutdownTimeout), OK
	}
	return "", InvalidLevel
}

// Call asks the manager whose address the connection leads to. The answer is JSON, or empty.
func Call(conn net.Conn, function, service, args string) (string, error) {
	c, err := wire.NewConn(conn, 0, "porthole")
	if err != nil {
		return "", err
	}
	if err := c.Send(wire.Request{Op: wire.SCM, Text: [3]string{function, service, args}}); err != nil {
		return "", err
	}
	a, err := c.Receive()
	if err != nil {
		return "", err
	}
	if a.Result != 0 {
		return "", Code(a.Result)
	}
	if a.Text[0] == nil {
		return "", errors.New("the service manager answered nothing")
	}
	return *a.Text[0], nil
}
