// Package component starts the parts of a program in the order in which they need each other, and stops them in
// reverse.
//
//	components ──Order──▶ Plan ──Run──▶ start, ready │ start, ready │ … until ctx ends or one fails … │ stop │ stop
//
// A part that cannot start, or is not ready in time, ends the program: those that run are stopped, and Run returns why.
package component

import (
	"context"
	"time"
)

// Component is one part of a program. Every function may be nil. All but Run are called one at a time.
type Component struct {
	// Name is what others name in Needs, and what logs and the printed plan say. Required, and unique in a plan.
	Name string
	// Needs are the components that must be ready before this one starts, and that stop after it.
	Needs []string
	// Start makes what others need, and returns soon. Its context ends when the component is to stop, or at once when
	// the program ends before the component is ready. If it returns an error, it leaves nothing behind: Stop is not
	// called.
	Start func(ctx context.Context) error
	// Ready returns nil when others may use what Start made.
	Ready func(ctx context.Context) error
	// ReadyWithin bounds Ready; zero: Ready may last as long as the program.
	ReadyWithin time.Duration
	// Run works until its context ends, in a goroutine of its own that begins after Start and before Ready. The context
	// ends when everything that needs the component has stopped. An error before that ends the program; nil does not.
	Run func(ctx context.Context) error
	// Stop undoes Start. It is called after Run has returned, and must return when its context ends.
	Stop func(ctx context.Context)
	// StopWithin bounds the end of Run together with Stop; zero means DefaultStop. After it the others are stopped.
	StopWithin time.Duration
}

// DefaultStop is how long a component may take to stop unless it says otherwise.
const DefaultStop = 5 * time.Second
