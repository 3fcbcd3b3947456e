package cluster

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/winbuild"
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

// shareServices notes for every node the services that one program keeps for all. What is wrong with them is said once.
func (s *Status) shareServices(c Counts) {
	for i := range s.Nodes {
		s.Nodes[i].Services = c
		if i > 0 {
			s.Nodes[i].Services.Problems = nil
		}
	}
}

// countServices turns the status of our service proxy into counts.
func countServices(s health.Status) Counts {
	c := Counts{Wanted: s.Wanted, Present: s.Programmed, Failed: s.Services[health.Failed],
		Pending: s.Services[health.Pending],
		ByState: map[string]int{}, Error: s.Error}
	if !s.Ready && c.Error == "" {
		c.Error = "the service proxy has not looked at the host yet"
	}

	for state, n := range s.Services {
		c.ByState[string(state)] = n
	}
	for _, list := range [][]health.ServiceLine{s.Failed, s.Pending, s.Unserved} {
		for _, l := range list {
			if l.State == health.Pending && l.Message == "" {
				l.Message = fmt.Sprintf("%d of %d frontends are programmed, the others wait for HNS", l.Programmed,
					l.Frontends)
			}
			l.Frontends, l.Programmed = 0, 0 // the message has them
			c.WithProblems = append(c.WithProblems, l)
			c.Problems = append(c.Problems, l.String())
		}
	}

	if s.Omitted > 0 {
		c.Problems = append(c.Problems, fmt.Sprintf("and %d more", s.Omitted))
	}
	return c
}

// nodeStatus returns the status of a node as far as the API knows it.
func nodeStatus(n Node, netns string, object *v1.Node) NodeStatus {
	s := NodeStatus{Name: n.Name, OS: n.OS(), Netns: netns, Addresses: []string{n.Address.String()}}
	if object == nil {
		s.Reason = "has not registered"
		return s
	}

	s.Build = object.Labels["node.kubernetes.io/windows-build"]
	s.OSImage, s.Runtime, s.PodCIDR = object.Status.NodeInfo.OSImage, object.Status.NodeInfo.ContainerRuntimeVersion,
		object.Spec.PodCIDR
	for _, h := range object.Status.RuntimeHandlers {
		if n.OS() == "windows" && winbuild.IsolationOf(h.Name) == winbuild.HyperV {
			s.NotIsolated = append(s.NotIsolated, h.Name)
		}
	}
	s.Addresses = nil
	for _, a := range object.Status.Addresses {
		if _, err := netip.ParseAddr(a.Address); err == nil {
			s.Addresses = append(s.Addresses, a.Address)
		}
	}

	s.Reason = "no Ready condition yet"
	for _, c := range object.Status.Conditions {
		if c.Type == v1.NodeReady {
			s.Ready = c.Status == v1.ConditionTrue
			s.Reason = c.Reason + ": " + c.Message
		}
	}

	if s.Ready {
		s.Reason = ""
	}
	return s
}

// Print writes the status as tables.
func (s *Status) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "cluster in %s, API %s, registry %s\n", s.Dir, s.API, s.Registry)
	if s.Error != "" {
		fmt.Fprintf(w, "the API does not answer: %s\n", s.Error)
	}
	fmt.Fprintln(w, "\nNODE\tREADY\tOS\tBUILD\tADDRESS\tPODS\tNETWORK\tSERVICES\tROUTES\tPEERS")
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, n.Ready, n.OS, dash(n.Build),
			strings.Join(n.Addresses, ","), dash(n.PodCIDR), dash(n.Network), n.Services, n.Routes, n.sessions())
	}

	s.printPeers(w)

	fmt.Fprintln(w, "\nPROCESS\tPHASE\tPID\tRESTARTS\tWAITS FOR")
	show := func(p supervise.State) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", p.Name, p.Phase, p.PID, p.Restarts, p.Waiting)
	}
	show(s.Supervisor)
	show(s.Standby)
	for _, p := range s.Processes {
		show(p)
	}

	for _, n := range s.Nodes {
		for _, p := range n.Processes {
			show(p)
		}
	}

	s.printLines(w, func(n NodeStatus) []string {
		if n.Boot == nil {
			return nil
		}
		return []string{n.Boot.String()}
	})
	s.printLines(w, NodeStatus.unisolated)
	s.printLines(w, func(n NodeStatus) []string { return n.problems() })
	return w.Flush()
}

// printLines writes a paragraph with the lines of every node, or nothing if there are none.
func (s *Status) printLines(w io.Writer, of func(NodeStatus) []string) {
	first := "\n"
	for _, n := range s.Nodes {
		for _, line := range of(n) {
			fmt.Fprintf(w, "%s%s: %s\n", first, n.Name, line)
			first = ""
		}
	}
}

// unisolated returns a line for each handler whose pods are isolated less than they ask for.
func (n NodeStatus) unisolated() (lines []string) {
	for _, h := range n.NotIsolated {
		lines = append(lines,
			fmt.Sprintf(
				"pods with the handler %s are not isolated by Hyper-V here, but as processes: the host is emulated", h))
	}
	return lines
}

// printPeers writes a table of the peers, if there are any.
func (s *Status) printPeers(w io.Writer) {
	title := "\nPEERS OF\tNETWORK\tADDRESS\tAS\tSESSION\tFOR\tLEARNT\n"
	for _, n := range s.Nodes {
		for _, p := range n.Peers {
			state, since := "established", "-"
			if !p.Up {
				state = "none"
			}
			if !p.Since.IsZero() {
				since = time.Since(p.Since).Round(time.Second).String()
			}
			fmt.Fprintf(w, "%s%s\t%s\t%s\t%d\t%s\t%s\t%d\n", title, n.Name, dash(n.Network), p.Address, p.AS, state,
				since, p.Learnt)
			title = ""
		}
	}
}

// sessions returns how many peers have a session, of how many; "-" if the node has none.
func (n *NodeStatus) sessions() string {
	if len(n.Peers) == 0 {
		return "-"
	}
	up := 0
	for _, p := range n.Peers {
		if p.Up {
			up++
		}
	}
	return fmt.Sprintf("%d/%d", up, len(n.Peers))
}

// problems returns a line for everything on the node that is not as it should be or could not be found out.
func (n *NodeStatus) problems() []string {
	var out []string
	for _, part := range []struct {
		name string
		c    Counts
	}{{"routes", n.Routes}, {"services", n.Services}} {
		if part.c.Error != "" {
			out = append(out, fmt.Sprintf("%s are not known: %s", part.name, part.c.Error))
		}
		out = append(out, part.c.Problems...)
	}
	if n.Services.ByState["failed"] > 0 {
		out = append(out, fmt.Sprintf("`porthole hns diff --node %s` shows what its HNS lacks", n.Name))
	}
	if n.Reason != "" {
		out = append(out, n.Reason)
	}
	return out
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
