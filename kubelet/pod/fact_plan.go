package pod

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// StopBegan says that a plan to end the pod is being carried out.
type StopBegan struct{}

func (StopBegan) take(s *State, now time.Time) { s.ending.begin(now) }

// Published is the status that was handed on: to the API, or to the mirror of a static pod.
type Published struct {
	// Status is that of the newest plan, so that the log need not have it.
	Status v1.PodStatus `json:"-"`
}

func (f Published) take(s *State, _ time.Time) { s.last = &f.Status }

// EventsSent says that the events of the newest plan were sent.
type EventsSent struct{}

func (EventsSent) take(s *State, _ time.Time) { s.events = nil }
