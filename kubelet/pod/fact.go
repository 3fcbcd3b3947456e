package pod

import "time"

// Fact is one thing that was learned about a pod, or done for it. The types of this package that implement it are all
// that there are; each says in its comment when it is true, and doc.go has the table of what follows from it.
//
// Facts are data: they can be written to a log and read back (see Entry). Texts for people, such as the messages of
// errors, are not part of the log.
type Fact interface {
	// take changes s. A fact that does not fit the state changes nothing.
	take(s *State, now time.Time)
}

// Take changes the state by what was learned at that time. It is the only way to change one. A fact that does not fit,
// for example the result of a probe of a container that was replaced since, changes nothing.
func (s *State) Take(f Fact, now time.Time) { f.take(s, now) }

// all has one value of each type of fact, for the log.
var all = []Fact{
	Desired{}, SourceGone{}, SourcesReady{}, Admitted{}, Refused{}, Stripped{}, NodeShutdown{}, Evicted{}, Reclaimed{},
	Observed{}, Checked{}, Removed{},
	ActionStarted{}, ActionDropped{}, TaskPanicked{},
	VolumesPrepared{}, VolumesFailed{}, SandboxMade{}, SandboxFailed{}, ImagePresent{}, ImageFailed{},
	ContainerStarted{}, StartFailed{}, HookDone{}, HookFailed{},
	ContainerStopped{}, StopFailed{}, SandboxStopped{}, SandboxStopFailed{}, RemoveDone{}, RemoveFailed{}, CleanedUp{},
	CleanupFailed{},
	Probed{}, ProbeAdopted{},
	Recalled{}, ResizeAgreed{}, ResizeRefused{}, ResizeSettled{}, Resized{},
	StopBegan{}, Published{}, EventsSent{},
}
