package model

import "time"

// State is how something is.
type State string

// States, from good to bad. Unknown is none of them: nobody could be asked.
const (
	Right   State = "right"
	Making  State = "making"
	Wrong   State = "wrong"
	Unknown State = "unknown"
)

// Problem is one thing that is not as it should be.
type Problem struct {
	State State `json:"state"`
	// Text says why, in one sentence. Command shows more.
	Text    string    `json:"text"`
	Command string    `json:"command,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Snapshot is the cluster at one moment.
type Snapshot struct {
	Cluster  Cluster
	Nodes    []Node
	Pods     []Pod
	Services []Service
}

// Cluster is what holds for all of it.
type Cluster struct {
	Name  string `json:"name"`
	Local bool   `json:"local"`
	API   API    `json:"api"`
	// Modes are the modes of the pod network that nodes report.
	Modes []string `json:"modes"`
}

// Node is one node.
type Node struct {
	Name      string   `json:"name"`
	OS        string   `json:"os"`
	Build     string   `json:"build,omitempty"`
	OSImage   string   `json:"osImage,omitempty"`
	Kubelet   string   `json:"kubelet,omitempty"`
	Runtime   string   `json:"runtime,omitempty"`
	Addresses []string `json:"addresses"`
	PodCIDR   string   `json:"podCIDR,omitempty"`
	Ready     bool     `json:"ready"`

	State    State     `json:"state"`
	Problems []Problem `json:"problems,omitempty"`
	Routes   Routes    `json:"routes"`
	Proxy    Proxy     `json:"proxy"`
	Peers    []Peer    `json:"peers,omitempty"`
}

// Part says whether what a node's program answered is of now.
type Part struct {
	// Known is false if there never was an answer.
	Known bool `json:"known"`
	// None: the node has no such program.
	None bool `json:"none,omitempty"`
	// Error is why there is no newer answer; then the rest is as it was at At, which is zero otherwise.
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Routes is a node's pod network.
type Routes struct {
	Part
	Mode    string `json:"mode,omitempty"`
	Wanted  int    `json:"wanted"`
	Present int    `json:"present"`
	Repairs int    `json:"repairs"`
	// Wrong are the routes that are not present.
	Wrong []Route `json:"wrong,omitempty"`
}

// Route is a wanted route to the pods of another node.
type Route struct {
	Node    string `json:"node"`
	To      string `json:"to"`
	NextHop string `json:"nextHop,omitempty"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// Proxy is a node's service proxy. It counts frontends.
type Proxy struct {
	Part
	Wanted     int `json:"wanted"`
	Programmed int `json:"programmed"`
	// Services counts services by state: programmed, pending, failed.
	Services map[string]int `json:"services,omitempty"`
}

// Pod is one pod, as the map shows it.
type Pod struct {
	Key       string    `json:"key"` // namespace/name
	Namespace string    `json:"ns"`
	Name      string    `json:"name"`
	Node      string    `json:"node,omitempty"`
	IP        string    `json:"ip,omitempty"`
	Images    []string  `json:"images"`
	Restarts  int       `json:"restarts,omitempty"`
	State     State     `json:"state"`
	Phase     string    `json:"phase"` // in the words of kubectl
	Created   time.Time `json:"created"`
	Problem   *Problem  `json:"problem,omitempty"`
}

// Service is one Service with its backends, and what nodes have of it.
type Service struct {
	Key       string   `json:"key"`
	Namespace string   `json:"ns"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	IPs       []string `json:"ips"`
	External  []string `json:"external,omitempty"`
	Ports     []Port   `json:"ports"`
	// Ready, Unready and Ending count endpoints.
	Ready   int `json:"ready"`
	Unready int `json:"unready"`
	Ending  int `json:"ending"`
	// Pods are the keys of the pods behind it, sorted.
	Pods []string `json:"pods,omitempty"`

	State    State     `json:"state"`
	Problems []Problem `json:"problems,omitempty"`
	// OnNodes are the nodes on which it is not programmed as wanted.
	OnNodes []OnNode `json:"onNodes,omitempty"`
}

// Port of a service.
type Port struct {
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
	Target   string `json:"target,omitempty"`
	NodePort int32  `json:"nodePort,omitempty"`
}

// OnNode is a service on one node.
type OnNode struct {
	Node    string    `json:"node"`
	State   State     `json:"state"`
	Text    string    `json:"text"`
	Since   time.Time `json:"since,omitzero"`
	Retries int       `json:"retries,omitempty"`
}
