package health

import (
	"time"

	"porthole.dev/porthole/proxy/service"
)

// State of a service on this node.
type State string

// States of a service.
const (
	// Programmed: every frontend that has backends is in the host's data plane as wanted.
	Programmed State = "programmed"
	// Pending: something is still to be done and nothing has gone wrong with it.
	Pending State = "pending"
	// Failed: the last attempt at one or more frontends went wrong; it is made again.
	Failed State = "failed"
)

// Pass is the outcome of one pass of a proxy over what it has to do.
type Pass struct {
	Started time.Time
	// Observed is when the host was last listed; zero if it never was.
	Observed time.Time
	// Took is how long the pass lasted.
	Took time.Duration
	// Ready: one pass since the start was complete.
	Ready bool
	// Full: the pass compared everything with a fresh listing, not only what changed.
	Full bool
	// Err says why the host could not be observed; nil if it could.
	Err error
	// Wanted, Programmed, Failed and Pending count frontends with backends; Writes the operations that changed the
	// host.
	Wanted, Programmed, Failed, Pending int
	Writes                              int
}

// ServiceStatus is the state of one service on this node.
type ServiceStatus struct {
	Service string // namespace/name
	State   State
	// Frontends counts those with backends, Programmed those of them that are as wanted.
	Frontends, Programmed int
	// Reason is one CamelCase word for what went wrong, Message the frontend with the host's own words; both are "" if
	// State is Programmed.
	Reason, Message string
	// Code is the host's error code; 0 if there is none.
	Code uint32
	// Since is when State was entered.
	Since time.Time
	// Failures counts the attempts in a row that failed for the same cause.
	Failures int
	// Problems are what this node cannot serve of the service as it is written, however often it is tried.
	Problems []service.Problem
	// Removed: the service is gone and nothing of it is left; only Service counts then.
	Removed bool
}
