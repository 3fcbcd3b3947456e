// Package probe asks a Windows host the questions whose answers the package check compares. Each probe is a sequence
// of questions over a small interface, so that tests can run it against an emulated HNS in the same process. The
// Windows files implement the interfaces for the host itself.
package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc/status"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/hns"
)

// Options of a probe.
type Options struct {
	// Changes allows the probe to make networks, files and pods on the machine. It removes what it made.
	Changes bool
	// Leave keeps what the probe of HNS made, so that a run after a reboot shows what became of it. That run removes
	// it.
	Leave bool
	// RestartHNS stops and starts the service hns during the probe; pods of the machine may lose their network.
	RestartHNS bool
	// Progress, if set, is called with each line as it comes.
	Progress func(check.Line)
	// Runtime has the settings of the probe of the container runtime.
	Runtime RuntimeOptions
}

// RuntimeOptions are for the probe of a container runtime.
type RuntimeOptions struct {
	Endpoint string // address of its CRI
	Image    string // of a Windows base image that fits the host, such as nanoserver; empty: no pod is made
}

// recorder collects the lines of a probe and what has to be undone.
type recorder struct {
	report   check.Report
	progress func(check.Line)
	undo     []undo
}

// undo is something that the probe made.
type undo struct {
	what string
	do   func(context.Context) error
	done bool
}

// newRecorder begins a report without lines, which is [] in JSON.
func newRecorder(name string, o Options) *recorder {
	return &recorder{report: check.Report{Probe: name, Release: release(), Changed: o.Changes, Lines: []check.Line{}},
		progress: o.Progress}
}

// add appends a line and shows it at once.
func (r *recorder) add(l check.Line) {
	r.report.Lines = append(r.report.Lines, l)
	if r.progress != nil {
		r.progress(l)
	}
}

// ask records the answer of f. If f fails, the value of the line is the error's code, and the line also has the
// error's text. ask returns the error too, because the caller may need the answer for further questions.
func (r *recorder) ask(name string, f func() (string, error)) (string, error) {
	start := time.Now()
	value, err := f()
	line := check.Line{Name: name, Value: value, Millis: time.Since(start).Milliseconds()}
	if err != nil {
		line.Value, line.Error = code(err), err.Error()
	}
	r.add(line)
	return value, err
}

// guarded calls f and records a panic as a line. Calls of Windows panic if a library lacks a function, and the probe
// must still remove what it made.
func (r *recorder) guarded(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			r.add(check.Line{Name: what + ".panic", Value: "failed", Error: fmt.Sprint(p)})
		}
	}()
	f()
}

// try records whether f succeeds: "ok" or its code.
func (r *recorder) try(name string, f func() error) error {
	_, err := r.ask(name, func() (string, error) { return "ok", f() })
	return err
}

// value records an answer that needs no call.
func (r *recorder) value(name, value string) { r.add(check.Line{Name: name, Value: value}) }

// seconds records how long it takes until f is true, rounded up, or "never" after the limit.
func (r *recorder) seconds(ctx context.Context, name string, limit time.Duration, f func() bool) bool {
	start := time.Now()
	for !f() {
		if time.Since(start) > limit || ctx.Err() != nil {
			r.add(check.Line{Name: name, Value: "never", Millis: time.Since(start).Milliseconds()})
			return false
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	took := time.Since(start)
	r.add(check.Line{Name: name, Value: strconv.Itoa(int((took + time.Second - 1) / time.Second)),
		Millis: took.Milliseconds()})
	return true
}

// made remembers how to remove something that the probe made. finish does that unless the probe has called remove
// successfully.
func (r *recorder) made(what string, do func(context.Context) error) (remove func(context.Context) error) {
	i := len(r.undo)
	r.undo = append(r.undo, undo{what: what, do: do})
	return func(ctx context.Context) error {
		err := r.undo[i].do(ctx)
		r.undo[i].done = err == nil
		return err
	}
}

// undoLimit bounds the removal of everything that a probe made.
const undoLimit = 2 * time.Minute

// finish removes what the probe made, the latest first, even if ctx has ended. It returns the report.
func (r *recorder) finish(ctx context.Context) check.Report {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	for i := len(r.undo) - 1; i >= 0; i-- {
		if u := &r.undo[i]; !u.done {
			if err := u.do(ctx); err != nil && !hns.IsAbsent(err) {
				r.report.Left = append(r.report.Left, fmt.Sprintf("%s: %v", u.what, err))
			}
		}
	}
	return r.report
}

// code returns the code of an error. For HNS it is a hexadecimal number as hns.Error has it (facility 7 reduced to the
// Win32 code), for the container runtime the name of the gRPC code, for Windows the number in hexadecimal. It is
// "failed" for other errors.
func code(err error) string {
	var e *hns.Error
	if errors.As(err, &e) && e.Code != 0 {
		return fmt.Sprintf("0x%x", e.Code)
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return fmt.Sprintf("0x%x", uint32(number))
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "failed"
}
