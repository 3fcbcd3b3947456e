package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func allEntries() []entry {
	n := &numbering{}
	return append(append(matrixEntries(n), specialEntries(n)...), sentinel(n))
}

// All objects can be in one API server at once: nothing is given to two of them.
func TestEntriesAreApart(t *testing.T) {
	all := allEntries()
	taken := map[string]string{}
	take := func(e entry, what string) {
		if other, twice := taken[what]; twice {
			t.Errorf("%s belongs to %s and to %s", what, other, e.name)
		}
		taken[what] = e.name
	}

	for _, e := range all {
		take(e, "name "+e.name)
		if len(e.name) > 63 {
			t.Errorf("%s has %d characters, a service's name has at most 63", e.name, len(e.name))
		}
		if ip := e.service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
			take(e, ip)
		}
		for _, ip := range e.service.Spec.ExternalIPs {
			take(e, ip)
		}
		for _, i := range e.balancer().Ingress {
			take(e, i.IP+i.Hostname)
		}
		for _, p := range e.service.Spec.Ports {
			if p.NodePort != 0 {
				take(e, fmt.Sprint("port ", p.NodePort))
				if p.NodePort >= firstHealthPort {
					t.Errorf("%s: node port %d is one for health checks", e.name, p.NodePort)
				}
			}
		}
		if p := e.service.Spec.HealthCheckNodePort; p != 0 {
			take(e, fmt.Sprint("port ", p))
			if p > 32767 {
				t.Errorf("%s: health check node port %d is not in the range", e.name, p)
			}
		}
		for _, s := range e.slices {
			take(e, "slice "+s.Name)
		}
	}
}

// Every policy meets every set of endpoints here and there, from every client, over both protocols.
func TestMatrixIsWhole(t *testing.T) {
	all := matrixEntries(&numbering{})
	if want := 2 * 2 * len(sets()) * len(sets()); len(all) != want {
		t.Errorf("%d entries, want %d", len(all), want)
	}
	cells, _ := cellsOf(all)
	seen := map[string]int{}
	for _, c := range cells {
		seen[c.kind+"/"+c.proto+" "+c.client]++
	}

	for _, kind := range []string{clusterIP, nodePort, externalIP, ingressIP} {
		for _, proto := range []string{"tcp", "udp"} {
			for _, client := range matrixClients {
				want := len(all)
				if kind == clusterIP && client == fromOutside {
					want = 0
				}
				if got := seen[kind+"/"+proto+" "+client]; got != want {
					t.Errorf("%s/%s from %s is asked %d times, want %d", kind, proto, client, got, want)
				}
			}
		}
	}

	if got := seen[healthPort+"/http "+fromOutside]; got != len(all)/2 {
		t.Errorf("health check node ports are asked %d times, want %d", got, len(all)/2)
	}
}

// TestCompare: answers are compared by who answered, whom it saw and how often, not by their order.
func TestCompare(t *testing.T) {
	a := addresses{client: map[string][]string{fromPod: {clientPod}, fromNode: {nodeIP}},
		node: []string{nodeIP, "10.244.1.1"}}
	c := cell{"svc", clusterIP, "tcp", "10.96.0.1:80", fromPod}
	read := func(c cell, answers ...string) outcome {
		m := map[string]int{}
		for _, x := range answers {
			m[x]++
		}
		return outcomeOf(c, m, a)
	}

	fromTheNode := cell{"svc", clusterIP, "tcp", "10.96.0.1:80", fromNode}
	health := cell{"svc", healthPort, "http", nodeIP + ":32000", fromOutside}
	for _, test := range []struct {
		name           string
		c              cell
		windows, linux []string
		sticky         bool
		want           string // "", "backends" or "source"
	}{
		{"equal", c, []string{"l1 " + clientPod, "r1 " + clientPod}, []string{"r1 " + clientPod, "l1 " + clientPod},
			false, ""},
		{"one fails fast, the other slowly", c, []string{timeout}, []string{refused}, false, ""},
		{"one backend more", c, []string{"l1 " + clientPod}, []string{"l1 " + clientPod, "r1 " + clientPod}, false,
			"backends"},
		{"none and some", c, []string{unreachable}, []string{"l1 " + clientPod}, false, "backends"},
		{"some attempts fail", c, []string{"l1 " + clientPod, timeout}, []string{"l1 " + clientPod}, false, "backends"},
		{"another port of the backend", c, []string{"l1:8081 " + clientPod}, []string{"l1 " + clientPod}, false,
			"backends"},
		{"another source", c, []string{"l1 " + nodeIP}, []string{"l1 " + clientPod}, false, "source"},
		{"a foreign source", c, []string{"l1 192.0.2.1"}, []string{"l1 " + nodeIP}, false, "source"},
		{"sticky, each to one", c, []string{"l1 " + clientPod}, []string{"r1 " + clientPod}, true, ""},
		{"sticky, one strays", c, []string{"l1 " + clientPod, "r1 " + clientPod}, []string{"r1 " + clientPod}, true,
			"backends"},
		{"the node with either address", fromTheNode, []string{"l1 " + nodeIP}, []string{"l1 10.244.1.1"}, false, ""},
		{"health", health, []string{"200 matrix/svc has 1, weight 1"}, []string{"200 matrix/svc has 1, weight 1"},
			false, ""},
		{"another count", health, []string{"503 matrix/svc has 0, weight 0"},
			[]string{"200 matrix/svc has 1, weight 1"}, false, "backends"},
		{"no health server", health, []string{refused}, []string{"503 matrix/svc has 0, weight 0"}, false, "backends"},
	} {
		w, l := map[cell]outcome{test.c: read(test.c, test.windows...)}, map[cell]outcome{test.c: read(test.c,
			test.linux...)}
		var got string
		for _, d := range compare([]cell{test.c}, map[cell]bool{test.c: test.sticky}, w, l, nil) {
			got = map[bool]string{false: "backends", true: "source"}[d.source]
			if d.known != "" {
				t.Errorf("%s: is known as %q", test.name, d.known)
			}
		}
		if got != test.want {
			t.Errorf("%s: difference in %q, want %q", test.name, got, test.want)
		}
	}
}

// A known difference is found, counted, and shown with its reason.
func TestKnown(t *testing.T) {
	c := cell{"svc", clusterIP, "tcp", "10.96.0.1:80", fromPod}
	list := []known{{reason: "never", fits: func(difference) bool { return false }},
		{reason: "because", fits: func(d difference) bool { return d.kind == clusterIP }}}
	found := compare([]cell{c}, nil, map[cell]outcome{c: {backends: []string{"l1"}}}, map[cell]outcome{}, list)
	if len(found) != 1 || found[0].known != "because" || list[0].used != 0 || list[1].used != 1 {
		t.Errorf("found %v, list %v", found, list)
	}
	if text := table(found); !strings.Contains(text, "known: because") || !strings.Contains(text, "l1") {
		t.Errorf("table says\n%s", text)
	}
}

// The prober's wording is what outcomeOf reads.
func TestFailuresAreFailures(t *testing.T) {
	c := cell{"svc", clusterIP, "tcp", "10.96.0.1:80", fromPod}
	for _, text := range []string{refused, timeout, unreachable, "error: read: connection reset by peer"} {
		if o := outcomeOf(c, map[string]int{text: 1}, addresses{}); len(o.backends) != 0 ||
			!slices.Equal(o.failures, []string{text}) {
			t.Errorf("%q is read as %v", text, o)
		}
	}
}

// A rotation changes every entry that it can, and keeps the policies.
func TestRotation(t *testing.T) {
	before := matrixEntries(&numbering{})
	after := rotated(before, 7)
	for i := range before {
		if slices.EqualFunc(before[i].slices[0].Endpoints, after[i].slices[0].Endpoints, sameEndpoint) {
			t.Errorf("%s has the endpoints that it had", before[i].name)
		}
		if before[i].service != after[i].service || after[i].slices[0].Name != before[i].slices[0].Name {
			t.Errorf("%s has become another service", before[i].name)
		}
	}
}

func sameEndpoint(a, b discoveryv1.Endpoint) bool { return a.Addresses[0] == b.Addresses[0] }
