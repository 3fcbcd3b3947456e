package model

import (
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Facts is all that Build knows. Objects are read only.
type Facts struct {
	// Name is how the cluster is called on the page. Local says that it is a local cluster of emulated hosts.
	Name  string
	Local bool
	API   API

	Nodes    []*v1.Node
	Pods     []*v1.Pod
	Services []*v1.Service
	Slices   []*discoveryv1.EndpointSlice
	Events   []*v1.Event

	// Reports are the answers of nodes, by the node's name. A node without one was not asked yet.
	Reports map[string]Report
	// Expected are the names of nodes that should be there; those of them that have not registered are wrong.
	Expected []string
}

// API says whether what the API told is of now.
type API struct {
	// Error is why it is not; "" if it is.
	Error string `json:"error,omitempty"`
	// Since is when the first request of the row failed.
	Since time.Time `json:"since,omitzero"`
}

// Report is what a node's own programs answered.
type Report struct {
	Routes Answer[RoutesDocument]
	Proxy  Answer[ProxyDocument]
}

// Answer is the last answer of one program of a node.
type Answer[T any] struct {
	// Last is the newest answer; nil if there never was one. At is when it came.
	Last *T
	At   time.Time
	// Error is why there is no newer one, and Since when the first question of the row failed.
	Error string
	Since time.Time
	// None: the node has no such program, which is no problem (kube-proxy of Kubernetes on Linux has no list of
	// services).
	None bool
}

// RoutesDocument is what `porthole routes` answers at /status, as far as the page shows it. Other versions may say
// more or less.
type RoutesDocument struct {
	Mode     string   `json:"mode"`
	PodCIDR  string   `json:"podCIDR"`
	Wanted   int      `json:"wanted"`
	Present  int      `json:"present"`
	Problems []string `json:"problems"`
	Error    string   `json:"error"`
	Network  string   `json:"network"`
	Repairs  int      `json:"repairs"`
	Routes   []struct {
		Node        string `json:"node"`
		Destination string `json:"destination"`
		NextHop     string `json:"nextHop"`
		State       string `json:"state"`
		Reason      string `json:"reason"`
	} `json:"routes"`
	Peers []Peer `json:"peers"`
}

// Peer is somebody with whom a node exchanges routes.
type Peer struct {
	Address string    `json:"address"`
	AS      uint32    `json:"as"`
	Up      bool      `json:"up"`
	Reason  string    `json:"reason,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Learnt  int       `json:"learnt"`
}

// ProxyDocument is what our service proxy answers at /status.
type ProxyDocument struct {
	Ready      bool           `json:"ready"`
	Error      string         `json:"error"`
	Wanted     int            `json:"wanted"`
	Programmed int            `json:"programmed"`
	Services   map[string]int `json:"services"`
	Failed     []ProxyLine    `json:"failed"`
	Pending    []ProxyLine    `json:"pending"`
	Unserved   []ProxyLine    `json:"unserved"`
	Right      []ProxyLine    `json:"right"`
	Omitted    int            `json:"omitted"`
}

// ProxyLine is one service in ProxyDocument.
type ProxyLine struct {
	Service    string    `json:"service"`
	State      string    `json:"state,omitempty"`
	Frontends  int       `json:"frontends,omitempty"`
	Programmed int       `json:"programmed,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	Code       string    `json:"code,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Failures   int       `json:"failures,omitempty"`
}

// NodeRef names a node and its system (linux, windows).
type NodeRef struct{ Name, OS string }
