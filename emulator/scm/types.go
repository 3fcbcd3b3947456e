package scm

import (
	"strconv"
	"time"
)

// Code is an error code of Windows (winerror.h); OK is none.
type Code uint32

// The codes of the service manager.
const (
	OK                         Code = 0
	FileNotFound               Code = 2
	InvalidHandle              Code = 6
	NotSupported               Code = 50
	InvalidParameter           Code = 87
	InvalidLevel               Code = 124
	DependentsRunning          Code = 1051
	InvalidControl             Code = 1052
	RequestTimeout             Code = 1053
	AlreadyRunning             Code = 1056
	Disabled                   Code = 1058
	CircularDependency         Code = 1059
	DoesNotExist               Code = 1060
	CannotAcceptControl        Code = 1061
	NotActive                  Code = 1062
	NotStartedByManager        Code = 1063
	SpecificError              Code = 1066
	ProcessAborted             Code = 1067
	DependencyFailed           Code = 1068
	MarkedForDelete            Code = 1072
	Exists                     Code = 1073
	DependencyMissing          Code = 1075
	ShutdownInProgress         Code = 1115
	NoShutdown                 Code = 1116
	ShutdownScheduled          Code = 1190
	noChange                        = 0xffffffff // SERVICE_NO_CHANGE of winsvc.h
	defaultPreshutdown              = 10 * time.Second
	answerLimit                     = 30 * time.Second // ServicesPipeTimeout
	defaultDelayed                  = 2 * time.Minute  // AutoStartDelay
	defaultWaitToKill               = 20 * time.Second // WaitToKillServiceTimeout
	infinite                        = 0xffffffff
	restartAction                   = 1
	rebootAction                    = 2
	commandAction                   = 3
	controlStop, controlQuery       = 1, 4
	controlShutdown                 = 5
	controlPreshutdown              = 15
	acceptStop, acceptShutdown      = 1, 4
	acceptPreshutdown               = 0x100
)

func (c Code) Error() string { return "error " + strconv.Itoa(int(c)) }

// State of a service (winsvc.h).
type State uint32

// The states.
const (
	Stopped State = 1 + iota
	StartPending
	StopPending
	Running
)

func (s State) String() string {
	names := map[State]string{Stopped: "stopped", StartPending: "starting", StopPending: "stopping", Running: "running"}
	if name := names[s]; name != "" {
		return name
	}
	return "state " + strconv.Itoa(int(s))
}

// Start types (winsvc.h).
const (
	StartAutomatic = 2
	StartManual    = 3
	StartDisabled  = 4
)

// Config is the configuration of a service, as CreateService and ChangeServiceConfig set it.
type Config struct {
	Name               string   `json:"name"`
	DisplayName        string   `json:"displayName"`
	Description        string   `json:"description,omitempty"`
	Path               string   `json:"path"` // command line
	Account            string   `json:"account"`
	Group              string   `json:"group,omitempty"`
	Type               uint32   `json:"type"`
	Start              uint32   `json:"start"`
	ErrorControl       uint32   `json:"errorControl"`
	SIDType            uint32   `json:"sidType,omitempty"`
	Dependencies       []string `json:"dependencies,omitempty"`
	Privileges         []string `json:"privileges,omitempty"`
	Delayed            bool     `json:"delayed,omitempty"`
	PreshutdownTimeout uint32   `json:"preshutdownTimeout"` // milliseconds
	Failure            Failure  `json:"failure"`
}

// Failure is what happens when the service fails.
type Failure struct {
	Reset   uint32   `json:"reset,omitempty"` // seconds without a failure after which the count begins at 0 again
	Message string   `json:"message,omitempty"`
	Command string   `json:"command,omitempty"`
	Actions []Action `json:"actions,omitempty"` // of the first failure, the second, …; the last is repeated
	// NonCrash: a service that reports that it stopped, with an exit code other than 0, has failed too.
	NonCrash bool `json:"nonCrash,omitempty"`
}

// Action is one recovery action: 0 none, 1 restart, 2 reboot, 3 run the command.
type Action struct {
	Type  uint32 `json:"type"`
	Delay uint32 `json:"delay"` // milliseconds
}

// Status is what a service reported last.
type Status struct {
	State    State  `json:"state"`
	Accepts  uint32 `json:"accepts"`
	Exit     Code   `json:"exit"`
	Specific uint32 `json:"specific"`
	Check    uint32 `json:"checkPoint"`
	Hint     uint32 `json:"waitHint"`
	PID      uint32 `json:"pid"`
}

// Process is one that a Launcher started.
type Process interface {
	PID() int              // Linux' number, as the process itself sees it
	Done() <-chan struct{} // closed when it has ended
	Kill()
}

// Launcher starts the processes of services. Windows implements it; tests have their own.
type Launcher interface {
	// Launch starts the process of a service, or for "" one that a recovery action names. It returns FileNotFound as
	// its error if the program is not there.
	Launch(service, commandLine string) (Process, error)
	// PreshutdownOrder returns the names of the services that get the pre-shutdown notice first, in this order.
	// Windows keeps the list in its registry under this name.
	PreshutdownOrder() []string
	// Alive reports whether a process of the host runs; pid is Linux' number, as the process itself sees it.
	Alive(pid int) bool
}

// Event is one entry of the Windows event log.
type Event struct {
	Time   time.Time `json:"time"`
	Log    string    `json:"log"` // System or Application
	Source string    `json:"source"`
	ID     uint32    `json:"id"`
	Level  string    `json:"level"` // Error, Warning or Information
	Text   string    `json:"text"`
}
