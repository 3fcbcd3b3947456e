package supervise

import "time"

// Process is one program to keep running.
type Process struct {
	// Name is unique; it also names the state file and is shown by status. Convention: "<node>/<program>".
	Name string `json:"name"`
	// Node that the process belongs to; "" for those of the cluster.
	Node string   `json:"node,omitempty"`
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env is added to a minimal environment (PATH, HOME).
	Env []string `json:"env,omitempty"`
	// Dir is the working directory; "" means /.
	Dir string `json:"dir,omitempty"`
	// Netns is the path of the network namespace to start in; "" means the supervisor's own.
	Netns string `json:"netns,omitempty"`
	// Hostname is the host name that the process sees, in a UTS namespace of its own; "" means the machine's.
	Hostname string `json:"hostname,omitempty"`
	// Box is the folder of an emulated Windows host. The process is started in the host's box (emulator/confine),
	// whose first process is the one with MakesBox. "" means that it sees the machine.
	Box      string `json:"box,omitempty"`
	MakesBox bool   `json:"makesBox,omitempty"`
	// Log receives standard output and error, appended; a file larger than 16 MiB is begun again.
	Log string `json:"log"`
	// WaitFor must all hold before each start.
	WaitFor []Condition `json:"waitFor,omitempty"`
	// WaitOnce must hold before the first start only.
	WaitOnce []Condition `json:"waitOnce,omitempty"`
	// Before is a program with its arguments that must succeed before each start, in the process's namespace and with
	// its log; it may take half a minute. Until it has, the process does not count as started. Nil for none.
	Before []string `json:"before,omitempty"`
	// Removes are files that must not exist when the process starts, such as sockets of an earlier one.
	Removes []string `json:"removes,omitempty"`
	// Follows names a process that this one needs without noticing its end: this one starts once that one runs, and is
	// killed and started again when that one was replaced. (Wine's programs hang for ever when their wineserver is
	// killed.)
	Follows string `json:"follows,omitempty"`
}

// Condition holds when a file exists or a TCP connection can be made. Exactly one of Path and TCP is set.
type Condition struct {
	Path string `json:"path,omitempty"`
	// Dial makes Path a unix socket that must accept a connection.
	Dial bool `json:"dial,omitempty"`
	// TCP is host:port inside Netns.
	TCP   string `json:"tcp,omitempty"`
	Netns string `json:"netns,omitempty"`
}

// State of a process as kept in its state file.
type State struct {
	Name string `json:"name"`
	Node string `json:"node,omitempty"`
	// Phase is one of waiting, running, backoff, stopped.
	Phase string `json:"phase"`
	PID   int    `json:"pid,omitempty"`
	// StartTicks is the kernel's start time of PID, which distinguishes a process from a later one with the same
	// number.
	StartTicks uint64    `json:"startTicks,omitempty"`
	Started    time.Time `json:"started,omitzero"`
	// Leader is the pid of the followed process at the start.
	Leader int `json:"leader,omitempty"`
	// Restarts counts ends that nobody asked for.
	Restarts int `json:"restarts"`
	// LastExit describes how the process ended the last time.
	LastExit string `json:"lastExit,omitempty"`
	// Waiting names the condition that the process waits for.
	Waiting string `json:"waiting,omitempty"`
}
