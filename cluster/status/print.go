package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"porthole.dev/porthole/cluster/supervise"
)

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
