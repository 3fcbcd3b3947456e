package service

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestPolicies goes through external policy × internal policy × pod on this node × pod on another node, for a load
// balancer. testdata/policies.txt says which clients get which backends. Each line was reviewed against the rule:
// every ready endpoint of a policy's set is used, and if there is none, those that terminate but still serve.
func TestPolicies(t *testing.T) {
	conditions := []string{"none", "ready", "notready", "terminating", "terminating unserving"}
	var b strings.Builder
	column := "%-8s %-8s %-21s %-21s | %-13s %-13s %-13s %s\n"
	fmt.Fprintf(&b, column, "external", "internal", "pod L on this node", "pod R on another", "cluster IP",
		"from outside", "from inside", "health")
	name := func(all []Backend) string {
		var out []string
		for _, x := range all {
			out = append(out, map[bool]string{true: "L", false: "R"}[x.Local])
		}
		if len(out) == 0 {
			return "-"
		}
		return strings.Join(out, "+")
	}

	for _, external := range []string{"Cluster", "Local"} {
		for _, internal := range []string{"Cluster", "Local"} {
			for _, l := range conditions {
				for _, r := range conditions {
					options := []serviceOption{loadBalancer("203.0.113.7")}
					if external == "Local" {
						options = append(options, externalLocal)
					}
					if internal == "Local" {
						options = append(options, internalLocal)
					}
					var pods []string
					if l != "none" {
						pods = append(pods, "10.0.0.1 n1 "+l)
					}
					if r != "none" {
						pods = append(pods, "10.0.0.2 n2 "+r)
					}
					x := NewTracker(here)
					x.SetService(svc("web", options...))
					x.SetSlice(eps("web-1", pods...))
					s := x.Take()[0]
					if len(s.Frontends) != 3 {
						t.Fatalf("%d frontends", len(s.Frontends))
					}

					node, ingress := s.Frontends[1], s.Frontends[2]
					if name(node.Backends)+name(node.Internal()) != name(ingress.Backends)+name(ingress.Internal()) {
						t.Errorf("%s %s %s %s: node port and ingress differ", external, internal, l, r)
					}

					health := "-"
					if s.HealthCheck != nil {
						health = fmt.Sprint(s.HealthCheck.LocalEndpoints)
					}
					fmt.Fprintf(&b, column, external, internal, l, r, name(s.Frontends[0].Backends),
						name(ingress.Backends), name(ingress.Internal()), health)
				}
			}
		}
	}

	const golden = "testdata/policies.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the table differs from %s (rewrite it with -update and review the difference):\n%s", golden,
			b.String())
	}
}
