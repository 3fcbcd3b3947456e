package hcn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	shim "github.com/Microsoft/hcsshim/hcn"

	"porthole.dev/porthole/hns"
)

// answer of a call.
type answer[T any] struct {
	value T
	err   error
}

// call runs f with the deadline. Kind names the call for counters, what is its object.
func call[T any](ctx context.Context, c *Client, kind, what string, f func() (T, error)) (T, error) {
	started := time.Now()
	late := time.NewTimer(c.opts.Deadline)
	defer late.Stop()
	done := make(chan answer[T], 1)
	var got answer[T]
	// A call that hangs keeps its slot until HNS answers.
	select {
	case c.slots <- struct{}{}:
		c.run(func() { done <- guarded(f) })
		select {
		case got = <-done:
		case <-late.C:
			got.err = fmt.Errorf("no answer from HNS: %w", context.DeadlineExceeded)
		case <-ctx.Done():
			got.err = fmt.Errorf("no answer from HNS: %w", ctx.Err())
		}
	case <-late.C:
		got.err = fmt.Errorf("%d calls to HNS hang: %w", cap(c.slots), context.DeadlineExceeded)
	case <-ctx.Done():
		got.err = fmt.Errorf("%d calls to HNS hang: %w", cap(c.slots), ctx.Err())
	}

	err := got.err
	if err != nil {
		err = classify(strings.TrimSpace(kind+" "+what), err)
	}
	if c.opts.Observe != nil {
		c.opts.Observe(kind, time.Since(started), err)
	}
	return got.value, err
}

// guarded turns a panic of hcsshim into an error.
func guarded[T any](f func() (T, error)) (a answer[T]) {
	defer func() {
		// hcsshim panics on an error that is not an HRESULT: a missing DLL or export.
		if p := recover(); p != nil {
			a.err = fmt.Errorf("the HNS libraries of this host cannot be called: %v", p)
		}
	}()
	a.value, a.err = f()
	return a
}

// idleWorker is how long a goroutine waits for another call: while there are thousands, each finds one whose stack has
// grown already.
const idleWorker = time.Second

// run has a goroutine do a call that has a slot, and give the slot back.
func (c *Client) run(do func()) {
	select {
	case c.calls <- do:
	default:
		go c.work(do)
	}
}

// work carries out calls and ends when there was none for idleWorker.
func (c *Client) work(do func()) {
	idle := time.NewTimer(idleWorker)
	defer idle.Stop()
	for {
		do()
		<-c.slots
		idle.Reset(idleWorker)
		select {
		case do = <-c.calls:
		case <-idle.C:
			return
		}
	}
}

// detailed adds to an error, if there is one, what it was about: words that the calls which succeed need not make.
func detailed(err error, format string, args ...any) error {
	var e *hns.Error
	if errors.As(err, &e) {
		e.Doing += " " + fmt.Sprintf(format, args...)
	}
	return err
}

// classify turns errors of HNS and of hcsshim into ours.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	e := &hns.Error{Doing: doing, Class: hns.Unknown, Err: err}
	var known *hns.Error
	var code *hresult
	var network shim.NetworkNotFoundError
	var namespace shim.NamespaceNotFoundError
	switch {
	case errors.As(err, &known):
		e.Class, e.Code = known.Class, known.Code
		return e
	case errors.As(err, &code):
		e.Code = code.code
		e.Class = hns.ClassOfCode(code.code)
		return e
	case errors.As(err, &network), errors.As(err, &namespace):
		e.Class = hns.Absent
		return e
	}

	for _, code := range hns.KnownCodes() {
		if shim.CheckErrorWithCode(err, shim.ErrorCode(code)) {
			e.Code, e.Class = code, hns.ClassOfCode(code)
			break
		}
	}
	return e
}
