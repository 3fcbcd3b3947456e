package observed

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// ContainerState is where a container is in its life. A container never goes back to an earlier state.
type ContainerState int

// The states of a container, in their order.
const (
	Created ContainerState = iota
	Running
	Exited
)

var containerStates = []string{"created", "running", "exited"}

func (c ContainerState) String() string { return containerStates[c] }

// MarshalText returns the state as a word, see String.
func (c ContainerState) MarshalText() ([]byte, error) {
	if int(c) >= len(containerStates) {
		return nil, fmt.Errorf("there is no state %d of a container", int(c))
	}
	return []byte(containerStates[c]), nil
}

// UnmarshalText reads the word of MarshalText.
func (c *ContainerState) UnmarshalText(text []byte) error {
	i := slices.Index(containerStates, string(text))
	if i < 0 {
		return fmt.Errorf("there is no state %q of a container", text)
	}
	*c = ContainerState(i)
	return nil
}

// Container is one container instance as the runtime knows it.
type Container struct {
	ID, SandboxID, Name string
	// Attempt counts from 0; it is the restart count.
	Attempt uint32
	State   ContainerState
	// Hash is the result of Hash for the spec that the container was made from; its annotations keep it.
	Hash                             string
	Image, ImageID                   string
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason                           string
	Message                          string `json:"-"` // what the container said at its end; not for a log of facts
	LogPath                          string
	User                             *v1.ContainerUser
	// MadeWith are the resources that it was made with, from its annotations; nil if they do not have them. Given are
	// the resources that it has now, as the runtime reports them.
	MadeWith *v1.ResourceRequirements
	// MadeIn are the limits that the pod as a whole had when the container was made.
	MadeIn v1.ResourceList
	Given  Given
	// Reset is when the trigger ended that was known when the container was planned, from its annotations; the zero
	// time if there was none. nil: its annotations do not say so.
	Reset *time.Time
	// Restored is what its annotations keep of its spec for its end, if it has a preStop hook: name, hook and ports.
	// Nil without one. A hook's command is not for a log of facts.
	Restored *v1.Container `json:"-"`
}

// Given are the limits of a container as the runtime reports them, in the units of cgroups and bytes. Zero means no
// limit.
type Given struct {
	Shares, Quota, Period, Memory int64
	// At is when the runtime was asked. An older answer never replaces a newer one.
	At time.Time
}

// NewerThan reports whether c was made after another instance of the same container.
func (c *Container) NewerThan(other *Container) bool {
	if c.Attempt != other.Attempt {
		return c.Attempt > other.Attempt
	}
	return c.CreatedAt.After(other.CreatedAt)
}

// Changed reports whether the container was made from another definition than that of the spec.
func (c *Container) Changed(of *v1.Container) bool { return desired.Changed(c.Hash, of) }
