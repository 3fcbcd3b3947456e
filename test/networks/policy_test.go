package networks

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	pathpkg "porthole.dev/porthole/path"
)

// localA is a service with a backend on each node and a node port, at which clients outside of the cluster get the
// backend of the node.
const localA = `
apiVersion: v1
kind: Service
metadata: {name: local}
spec:
  type: NodePort
  externalTrafficPolicy: Local
  selector: {app: paths, role: a}
  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30180}]
`

const localPort = 30180

// TestTrafficPolicies compares the backends that `porthole path` computes for a node port with external traffic policy
// Local with those that answer: clients inside and outside of the cluster get others, and Windows nodes do not tell
// them apart.
func TestTrafficPolicies(t *testing.T) {
	long(t)
	f := pathCheck{up(t, "host-gateway").fleet()}
	f.apply(localA)
	const outside = "203.0.113.1"
	f.answers("lin01", "lin01", nodeNames...)
	f.answers("b-lin01", "lin01", nodeNames...)
	f.answers("win01", "lin01", "lin01") // another node
	f.answers(outside, "lin01", "lin01")
	f.answers(outside, "win01", "win01")
	f.answers("b-lin01", "win01", "win01")
	f.answers("lin01", "win02", "win02")

	// A pod of another node is sent to all backends, and its address stays: what answers from elsewhere than lin01 is
	// not what it asked.
	r, text := f.follow(f.gather(), "b-win02", f.port("lin01"))
	var right []string
	for _, w := range r.Ways {
		if w.First() == nil {
			right = append(right, f.nodesOf(w)...)
		}
	}
	if h := r.First(); len(r.Ways) != 3 || h == nil || h.What != "answer" || !slices.Equal(right, []string{"lin01"}) {
		t.Errorf("a pod of another node: `porthole path` says\n%s", text)
	}
	if answered, silent := f.asked("b-win02", "lin01", 12); silent == 0 || len(answered) > 1 ||
		len(answered) == 1 && answered[0] != "lin01" {
		t.Errorf("a pod of another node got answers from %v, and %d times none, of 12", answered, silent)
	}
}

// port is the node port of a node.
func (f pathCheck) port(node string) string {
	return netip.AddrPortFrom(f.nodes[node], localPort).String()
}

// answers checks which nodes have the backends that answer a client at the node port of a node, and that `porthole
// path` says the same.
func (f pathCheck) answers(from, at string, want ...string) {
	f.t.Helper()
	what := fmt.Sprintf("%s to the node port of %s", from, at)
	wait.NoError(f.t, 20*time.Second, what, func() error { _, err := f.answer(from, at); return err })
	r, text := f.follow(f.gather(), from, f.port(at))
	if computed := f.nodesOf(r.Ways...); r.First() != nil || r.Unknown() || !slices.Equal(computed, want) {
		f.t.Errorf("%s: `porthole path` says\n%s\nwant backends on %v", what, text, want)
	}
	if answered, silent := f.asked(from, at, 60); silent > 0 || !slices.Equal(answered, want) {
		f.t.Errorf("%s: backends on %v answered, and none %d times; want those on %v", what, answered, silent, want)
	}
}

// asked asks a node port so often, and returns on which nodes backends answered, and how often none did.
func (f pathCheck) asked(from, at string, times int) (answered []string, silent int) {
	by := map[string]bool{}
	for range times {
		name, err := f.answer(from, at)
		if err != nil {
			silent++
			continue
		}
		by[strings.TrimPrefix(name, "a-")] = true
	}
	return slices.Sorted(maps.Keys(by)), silent
}

// nodesOf returns the nodes of the backends of ways, in order.
func (f pathCheck) nodesOf(ways ...pathpkg.Way) (nodes []string) {
	for _, n := range nodeNames {
		if slices.ContainsFunc(ways, func(w pathpkg.Way) bool { return w.Backend.Addr() == f.addr["a-"+n] }) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// answer asks the node port of a node from a pod, a node, or an address outside, and returns the name of the pod that
// answers.
func (f pathCheck) answer(from, at string) (name string, err error) {
	netns, dialer := f.netns[from], net.Dialer{Timeout: time.Second}
	switch {
	case slices.Contains(nodeNames, from):
		netns = platform.NetnsPath("porthole-" + from)
	case netns == "":
		netns = platform.NetnsPath("porthole-tor")
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}

	var c net.Conn
	err = platform.InNetns(netns, func() (err error) {
		c, err = dialer.Dial("tcp4", f.port(at))
		return err
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n")
	out, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(out), "hostname=")
	if !ok {
		return "", fmt.Errorf("the answer names no pod: %q", out)
	}
	name, _, _ = strings.Cut(rest, " ")
	return name, nil
}
