// Package status is what `porthole status` says of a local cluster: its processes, and what the API and each node's own
// programs tell of the nodes. Package observe asks them.
package status

import (
	"fmt"
	"time"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/proxy/health"
)

// Status is what `porthole status -o json` prints.
type Status struct {
	Dir        string            `json:"dir"`
	Kubeconfig string            `json:"kubeconfig"`
	Registry   string            `json:"registry"` // as nodes reach it
	API        string            `json:"api"`
	Supervisor supervise.State   `json:"supervisor"`
	Standby    supervise.State   `json:"standby"`
	Processes  []supervise.State `json:"processes"` // of the cluster itself
	Nodes      []NodeStatus      `json:"nodes"`
	// Error is the reason if the API could not be asked.
	Error string `json:"error,omitempty"`
}

// NodeStatus is one node.
type NodeStatus struct {
	Name      string   `json:"name"`
	OS        string   `json:"os"`
	Build     string   `json:"build,omitempty"`
	OSImage   string   `json:"osImage,omitempty"`
	Ready     bool     `json:"ready"`
	Reason    string   `json:"reason,omitempty"` // why it is not Ready
	Addresses []string `json:"addresses"`
	PodCIDR   string   `json:"podCIDR,omitempty"`
	Network   string   `json:"network,omitempty"` // mode of `porthole routes`; empty if it could not be asked
	Runtime   string   `json:"runtime,omitempty"`
	// NotIsolated are the runtime's handlers of Hyper-V isolation: the host is emulated, and their pods are isolated
	// as processes.
	NotIsolated []string          `json:"notIsolated,omitempty"`
	Netns       string            `json:"netns"`
	Processes   []supervise.State `json:"processes"`
	Services    Counts            `json:"services"`
	Routes      Counts            `json:"routes"`
	// Boot is what a Windows node's programs have recorded of its boot.
	Boot *bootrecord.Boot `json:"boot,omitempty"`
	// Peers are those with whom `porthole routes` exchanges routes; only of modes that do so.
	Peers []Peer `json:"peers,omitempty"`
}

// Peer is somebody with whom a node exchanges routes.
type Peer struct {
	Address string `json:"address"`
	AS      uint32 `json:"as"`
	Up      bool   `json:"up"`
	Reason  string `json:"reason,omitempty"` // why there is no session
	// Since is when the session began or ended, or when the peer was configured.
	Since  time.Time `json:"since,omitzero"`
	Learnt int       `json:"learnt"` // paths that the peer has told
}

// Counts of objects that a part of the node keeps.
type Counts struct {
	Wanted  int `json:"wanted"`
	Present int `json:"present"`
	Failed  int `json:"failed"`
	// Pending counts objects that are still to be programmed and have not failed; service proxy only.
	Pending int `json:"pending,omitempty"`
	// ByState counts services by state: programmed, pending, failed; service proxy only.
	ByState map[string]int `json:"byState,omitempty"`
	// WithProblems are the services that are not programmed as wanted, and those that cannot be served as they are
	// written.
	WithProblems []health.ServiceLine `json:"withProblems,omitempty"`
	// Problems has a line for each object that is not as it should be, with the reason.
	Problems []string `json:"problems,omitempty"`
	// Error is the reason if the part could not be asked; then the counts are unknown.
	Error string `json:"error,omitempty"`
}

func (c Counts) String() string {
	if c.Error != "" {
		return "?"
	}
	s := fmt.Sprintf("%d/%d", c.Present, c.Wanted)
	if n := c.ByState["failed"]; n > 0 {
		s += fmt.Sprintf(", %d failed", n)
	}
	if n := c.ByState["pending"]; n > 0 {
		s += fmt.Sprintf(", %d pending", n)
	}
	return s
}
