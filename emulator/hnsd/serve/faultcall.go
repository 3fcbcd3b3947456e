package serve

import (
	"context"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/fault"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/wire"
)

// underFaults answers one call as the faults that are set say, and by carrying it out if none says otherwise. It
// returns false if the caller is to get no answer. The actions differ in whether the call takes effect: "drop", "fail",
// "skip" and "empty" leave it out, "after" carries it out and then reports a failure, "forget" and "late" carry it out
// in part and report success.
func (s *Service) underFaults(ctx context.Context, c call, watch watcher) (wire.Answer, bool) {
	// A service that does not run answers before any rule; questions to the host's IP stack are not
	// HNS'.
	if e := s.life.refusal(); e != nil && !c.Op.OnStack() {
		return failure(e), true
	}
	fault := s.faults.Match(c.program, c.name, func() string { return c.about(s.objects.State()) })
	if fault.Delay > 0 {
		latency.SleepUntil(ctx, time.Now().Add(time.Duration(fault.Delay)*time.Millisecond))
	}
	var withheld []any
	switch fault.Action {
	case "drop":
		return wire.Answer{}, false
	case "fail":
		return failure(&hnsd.Error{Code: fault.Code, Text: fault.Text}), true
	case "skip":
		return s.pretend(c), true
	case "forget", "late":
		withheld = c.withhold(fault.Fields)
	case "hang":
		if e := s.hang(ctx, fault, watch); e != nil {
			return failure(e), true
		}
	// Listings have another form in each of the two interfaces; "empty" leaves other calls alone.
	case "empty":
		if c.hcn && c.function == wire.Enumerate {
			return withText("[]"), true
		}
		if c.Op == wire.HNSCall && c.v1.Method == "GET" {
			return withText(`{"Success":true,"Output":[]}`), true
		}
	}

	a := s.inTime(ctx, c)
	switch {
	case fault.Action == "late":
		s.catchUp(ctx, c, a, lateness{withheld, time.Duration(fault.LateMs) * time.Millisecond})
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

// hang waits until the rule of a call is replaced, which lets the call go on; an error ends it.
func (s *Service) hang(ctx context.Context, rule fault.Rule, watch watcher) error {
	gone, stop := watch()
	defer stop()
	replaced, release := s.faults.Hold(rule)
	defer release()
	select {
	// The caller, the end of the service or that of the daemon end the wait.
	case <-replaced:
		return nil
	case <-gone:
	case <-s.life.untilDown():
	case <-ctx.Done():
	}
	return hnsd.ErrCallFailed
}

// pretend is the answer of a call that did nothing, as successful as its caller can see: what it made cannot be read.
func (s *Service) pretend(c call) wire.Answer {
	switch {
	case c.Op == wire.HNSCall:
		return withText(`{"Success":true,"Output":{}}`)
	case !c.hcn:
		return wire.Answer{}
	}

	switch c.function {
	case wire.Enumerate:
		return withText("[]")
	case wire.Query:
		return withText("{}")
	// The object does not exist, so that the first use of the handle fails.
	case wire.Create:
		return wire.Answer{Handle: s.handles.Open(c.kind, s.host.NewID(), c.process)}
	case wire.Open:
		return wire.Answer{Handle: s.handles.Open(c.kind, c.GUID, c.process)}
	}
	return wire.Answer{}
}

// withhold leaves policies of some types out of what a call brings, and returns them.
func (c *call) withhold(types []string) (left []any) {
	// The settings were decoded before the fault was known, and are decoded again.
	c.Text[0], left = withoutPolicies(c.Text[0], types)
	if c.settings != nil {
		c.settings = hnsd.ParseDoc(c.Text[0])
	}
	return left
}

// inTime carries out a call in the time that such a call takes.
func (s *Service) inTime(ctx context.Context, c call) wire.Answer {
	if !s.latency.Injects() {
		return s.carryOut(ctx, c)
	}
	t := c.target(s.objects.State())
	l := latency.Call{Program: c.program, Function: c.name, Write: isWrite(c.name), Network: t.Network,
		Backends: t.Backends, Balancers: t.Balancers}
	// It is the answer if the latency's wait ends before the call is carried out.
	a := failure(hnsd.ErrCallFailed)
	s.latency.Run(ctx, l, func() (wait bool) {
		if s.life.refusal() != nil { // it went while the call was under way
			return false
		}
		a = s.carryOut(ctx, c)
		return true
	})
	return a
}
