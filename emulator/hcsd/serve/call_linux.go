package serve

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hnsd/fault"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/wakeup"
)

// call is one call of a program.
type call struct {
	wire.Request
	process uint64 // of the caller
	program string // file name of the caller
	opens   func(id string, pid uint32)
	holds   func(job string) // a silo ends with the connection that made it
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

// operation carries out one function.
type operation = func(context.Context, call) (result, error)

// functions are those of vmcompute.dll, bindfltapi.dll and virtdisk.dll that are carried out; any other is not
// implemented.
func (s *Service) functions() map[string]operation {
	systems, programs, layers, silos := systemCalls{s}, programCalls{s}, layerCalls{s}, siloCalls{s}
	return map[string]operation{
		"HcsCreateComputeSystem":        systems.createSystem,
		"HcsOpenComputeSystem":          systems.openSystem,
		"HcsStartComputeSystem":         systems.startSystem,
		"HcsShutdownComputeSystem":      systems.stopSystem,
		"HcsTerminateComputeSystem":     systems.stopSystem,
		"HcsGetComputeSystemProperties": systems.systemProperties,
		"HcsModifyComputeSystem":        systems.modifySystem,
		"HcsEnumerateComputeSystems":    systems.enumerate,
		"HcsGetServiceProperties":       systems.serviceProperties,
		"HcsModifyServiceSettings":      systems.modifyService,

		"HcsCreateProcess":        programs.createProcess,
		"HcsOpenProcess":          programs.openProcess,
		"HcsTerminateProcess":     programs.terminateProcess,
		"HcsSignalProcess":        programs.signalProcess,
		"HcsModifyProcess":        programs.modifyProcess,
		"HcsGetProcessProperties": programs.processProperties,

		"NameToGuid":        layers.nameToGUID,
		"ProcessBaseImage":  layers.processBaseImage,
		"ImportLayer":       layers.importLayer,
		"ActivateLayer":     layers.activateLayer,
		"PrepareLayer":      layers.prepareLayer,
		"UnprepareLayer":    layers.unprepareLayer,
		"DeactivateLayer":   layers.deactivateLayer,
		"DestroyLayer":      layers.destroyLayer,
		"GetLayerMountPath": layers.layerMountPath,
		"LayerExists":       layers.layerExists,
		"ExpandSandboxSize": layers.expandSandbox,
		"AttachVirtualDisk": layers.attachDisk,

		"BfSetupFilter":   silos.bind,
		"BfRemoveMapping": silos.unbind,
		"BfGetMappings":   silos.mappings,
	}
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

	c := call{process: hello.Handle, program: hello.Text[0]}
	var open []opened
	c.opens = func(id string, pid uint32) { open = append(open, opened{id, pid}) }
	var jobs []string
	c.holds = func(job string) { jobs = append(jobs, job) }
	defer func() {
		if ctx.Err() == nil { // the end of the daemon closes no handle
			s.closed(ctx, open)
			siloCalls{s}.dropSilos(jobs)
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

// answer runs one call, counts and logs it. false: the connection is to be dropped.
func (s *Service) answer(ctx context.Context, c call) (wire.Answer, bool) {
	begin := time.Now()
	a, ok := s.respond(ctx, c)
	took := time.Since(begin)
	s.calls.Add(c.program, c.function(), !ok || a.Failed() && a.Result != hcsd.ErrPending.Code, took)
	klog.FromContext(ctx).V(4).
		Info("call", "function", c.function(), "program", c.program, "subject", c.subject(), "pid", c.pid(),
			"document", c.document(), "result", a.Result, "output", a.Text[0], "took", took, "answered", ok)
	return a, ok
}

// respond runs one call and returns its answer, unless a fault rule delays it, fails it or leaves it unanswered. ok is
// false if the caller gets no answer.
func (s *Service) respond(ctx context.Context, c call) (a wire.Answer, ok bool) {
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

	a = s.run(ctx, c)
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

// run carries out a call without faults.
func (s *Service) run(ctx context.Context, c call) wire.Answer {
	carryOut := s.operations[c.function()]
	if carryOut == nil {
		return failure(hcsd.ErrNotImplemented)
	}
	r, err := carryOut(ctx, c)
	if err != nil {
		var known *hcsd.Error
		if !errors.As(err, &known) {
			klog.FromContext(ctx).Error(err, "HCS failed", "function", c.function(), "program", c.program, "subject",
				c.subject())
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

// poll waits for what has no event of its own, such as a file that a program in a container writes. It returns ctx's
// error.
func poll(ctx context.Context, every time.Duration, done func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// keyOf names the folder of a system, and its container of runc.
func keyOf(id string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if len(id) <= 80 && strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0 {
		return id
	}
	return hcsd.NameToGUID(id)
}
