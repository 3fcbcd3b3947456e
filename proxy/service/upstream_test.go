package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// upstreamCase is the input of bundle/proxyoracle.
type upstreamCase struct {
	Node, Zone string
	Service    *corev1.Service
	Slices     []*discoveryv1.EndpointSlice
}

// TestAgainstUpstream gives 10,000 random services to the logic of upstream's Linux kube-proxy and compares every
// frontend, backend, short cut, source range and health check. `make bundle-tests` builds the program.
func TestAgainstUpstream(t *testing.T) {
	oracle, err := filepath.Abs("../../bin/bundle/proxy-oracle")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(oracle); err != nil {
		t.Skip("needs bin/bundle/proxy-oracle: make bundle-tests")
	}
	const count = 10_000
	w := world{rand.New(rand.NewPCG(7, 7))}
	cases := make([]upstreamCase, count)
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)

	for i := range cases {
		cases[i] = w.upstream()
		if err := encoder.Encode(cases[i]); err != nil {
			t.Fatal(err)
		}
	}

	cmd := exec.CommandContext(t.Context(), oracle)
	cmd.Stdin, cmd.Stderr = &in, nil
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running %s: %v", oracle, err)
	}

	decoder := json.NewDecoder(bytes.NewReader(out))
	backends := 0

	for i, c := range cases {
		var want []string
		if err := decoder.Decode(&want); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		// Upstream runs one proxier per family, and each answers health checks for its family. Ours answers for the
		// first family.
		want = slices.DeleteFunc(want, func(line string) bool {
			return strings.HasPrefix(line, "health ") &&
				!strings.HasPrefix(line, "health "+string(c.Service.Spec.IPFamilies[0]))
		})
		slices.Sort(want)
		got := c.ours()
		if !slices.Equal(got, want) {
			objects, _ := json.MarshalIndent(c, "", " ") // only for people
			t.Fatalf("case %d: ours\n  %s\nupstream's\n  %s\n%s", i, strings.Join(got, "\n  "),
				strings.Join(want, "\n  "), objects)
		}

		backends += strings.Count(strings.Join(want, " "), ":8080")
	}
	if backends < count {
		t.Errorf("only %d backends in %d cases: they compare too little", backends, count)
	}
}

// upstream creates one case. It leaves out what only we or only Windows have, and what upstream decides at random: an
// address in two slices with different conditions.
func (w world) upstream() upstreamCase {
	s := w.service("s0")
	s.Annotations = nil

	for _, o := range []serviceOption{ranges("192.0.2.0/24", " 198.51.100.0/24", "2001:db8::/32"),
		ranges("192.0.2.0/24", "0.0.0.0/0")} {
		if w.IntN(6) == 0 {
			o(s)
		}
	}

	s.Spec.ExternalIPs = nil
	if w.IntN(3) == 0 {
		s.Spec.ExternalIPs = []string{"198.51.100.1", "2001:db8::9", ""}
	}
	if w.IntN(4) == 0 && len(s.Status.LoadBalancer.Ingress) > 0 {
		proxied := corev1.LoadBalancerIPModeProxy
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: "2001:db8::7"},
			corev1.LoadBalancerIngress{Hostname: "lb.example"},
			corev1.LoadBalancerIngress{IP: "203.0.113.9", IPMode: &proxied})
	}
	c := upstreamCase{Node: here.Name, Zone: w.pick("", "z1", "z1", "z2"), Service: s}
	all, used := w.pick("", "zone", "node", "both"), 0

	for i := range w.IntN(5) {
		var pods []string
		prefix := "10.0.0."
		if w.IntN(3) == 0 {
			prefix = "fd01::"
		}
		for range w.IntN(6) {
			used++
			pods = append(pods, fmt.Sprintf("%s%d ", prefix, used)+w.endpointWords(all))
		}

		slice := with(eps(fmt.Sprintf("x%d", i), pods...), of("s0"),
			to(w.pick("http 8080", "http 8080", "http 9090"), "dns 8080/udp", w.pick("admin 81", "other 81")))
		c.Slices = append(c.Slices, slice)
	}
	if len(c.Slices) > 0 && w.IntN(3) == 0 { // an endpoint is in two slices, as while it moves
		twin := c.Slices[0].DeepCopy()
		twin.Name = "twin"
		c.Slices = append(c.Slices, twin)
	}
	return c
}

// endpointWords gives hints to nearly all endpoints of a case, or to few: hints only count if all endpoints have some.
func (w world) endpointWords(hints string) string {
	words := []string{w.pick("n1", "n2", "n3", "n3", ""),
		w.pick("", "", "notready", "terminating", "terminating", "terminating unserving", "unset", "published")}
	often := w.IntN(12) > 0
	if often && (hints == "zone" || hints == "both") {
		words = append(words, w.pick("zone=z1", "zone=z2", "zone=z3", "zone=z1 zone=z2"))
	}
	if often && (hints == "node" || hints == "both") {
		words = append(words, w.pick("for=n1", "for=n2", "for=n3"))
	}
	return strings.Join(words, " ")
}

// ours returns the lines that the oracle should write.
func (c upstreamCase) ours() []string {
	x := NewTracker(Node{Name: c.Node, Zone: c.Zone})
	x.SetOptions(Options{SourceRanges: Carry})
	x.SetService(c.Service)

	for _, s := range c.Slices {
		x.SetSlice(s)
	}

	var lines []string
	list := func(all []Backend) string {
		var out []string
		for _, b := range all {
			word := fmt.Sprintf("%s:%d", b.Addr, b.Port)
			if b.Addr.Is6() {
				word = fmt.Sprintf("[%s]:%d", b.Addr, b.Port)
			}
			if b.Local {
				word += "*"
			}
			out = append(out, word)
		}

		slices.Sort(out)
		return strings.Join(out, " ")
	}

	for _, s := range x.Take() {
		for _, f := range s.Frontends {
			line := fmt.Sprintf("%s %s -> %s", f.Kind, f.Key, list(f.Backends))
			if f.InternalBackends != nil {
				line += " | internal " + list(f.InternalBackends)
			}
			if f.Affinity {
				line += fmt.Sprintf(" affinity %ds", int(f.AffinityTimeout.Seconds()))
			}
			if len(f.SourceRanges) > 0 {
				line += fmt.Sprintf(" from %v", f.SourceRanges)
			}
			lines = append(lines, line)
		}
		if h := s.HealthCheck; h != nil {
			lines = append(lines, fmt.Sprintf("health %s %s %d = %d", c.Service.Spec.IPFamilies[0], h.Service, h.Port,
				h.LocalEndpoints))
		}
	}

	slices.Sort(lines)
	return lines
}
