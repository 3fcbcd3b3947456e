package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ptr[T any](v T) *T { return &v }

func podWith(spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", UID: "u"}, Spec: spec}
}

// Row 1.70.
func TestPolicies(t *testing.T) {
	host := Config{Servers: []string{"192.0.2.53"}, Searches: []string{"example.com", "cluster.local"},
		Options: []string{"rotate"}}
	cluster := Cluster{Servers: []string{"10.96.0.10"}, Domain: "cluster.local", Host: host}
	inCluster := "10.96.0.10 | ns.svc.cluster.local svc.cluster.local cluster.local example.com | ndots:5"
	ofHost := "192.0.2.53 | example.com cluster.local | rotate"

	for name, c := range map[string]struct {
		spec v1.PodSpec
		want string
	}{
		"cluster first":               {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, inCluster},
		"left out":                    {v1.PodSpec{}, inCluster},
		"cluster first, host network": {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, ofHost},
		"left out, host network":      {v1.PodSpec{HostNetwork: true}, ofHost},
		"with host net": {v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true},
			inCluster},
		"default": {v1.PodSpec{DNSPolicy: v1.DNSDefault}, ofHost},
		"none": {v1.PodSpec{DNSPolicy: v1.DNSNone,
			DNSConfig: &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"a.b"}}},
			"1.1.1.1 | a.b | "},
		"more of one's own, doubles cut": {v1.PodSpec{DNSPolicy: v1.DNSDefault,
			DNSConfig: &v1.PodDNSConfig{Nameservers: []string{"192.0.2.53", "1.1.1.1"},
				Searches: []string{"example.com"},
				Options:  []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("2")}, {Name: "rotate"}}}},
			"192.0.2.53 1.1.1.1 | example.com cluster.local | rotate ndots:2"},
		"an option set anew": {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst,
			DNSConfig: &v1.PodDNSConfig{Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr("2")}}}},
			strings.Replace(inCluster, "ndots:5", "ndots:2", 1)},
	} {
		cfg, reason, _ := ForPod(podWith(c.spec), cluster)
		got := strings.Join(cfg.Servers, " ") + " | " + strings.Join(cfg.Searches, " ") + " | " +
			strings.Join(cfg.Options, " ")
		if got != c.want || reason != "" {
			t.Errorf("%s: %s %s, want %s", name, got, reason, c.want)
		}
	}

	if !slices.Equal(cluster.Host.Searches, []string{"example.com", "cluster.local"}) ||
		!slices.Equal(host.Options, []string{"rotate"}) {
		t.Errorf("the node's own settings were changed: %+v", cluster.Host)
	}
}

// TestNoResolver: on a node without a resolver, pods get no settings of the node, and cluster-first pods only the
// cluster's.
func TestNoResolver(t *testing.T) {
	cluster := Cluster{Servers: []string{"10.96.0.10"}, Domain: "cluster.local",
		Host: NoResolver([]string{"192.0.2.1", "2001:db8::1"})}
	for policy, want := range map[v1.DNSPolicy]string{
		v1.DNSDefault:      "{[127.0.0.1 ::1] [.] []}",
		v1.DNSClusterFirst: "{[10.96.0.10] [ns.svc.cluster.local svc.cluster.local cluster.local] [ndots:5]}",
	} {
		cfg, _, _ := ForPod(podWith(v1.PodSpec{DNSPolicy: policy}), cluster)
		if got := fmt.Sprint(cfg); got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
	}
	if got := fmt.Sprint(NoResolver(nil).Servers); got != "[127.0.0.1]" {
		t.Errorf("without addresses: %s", got)
	}
}

func TestWarnings(t *testing.T) {
	_, reason, message := ForPod(podWith(v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet}), Cluster{})
	want :=
		`pod: "web-0_ns(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`
	if reason != "MissingClusterDNS" || message != want {
		t.Errorf("%s: %s", reason, message)
	}
	many := &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}}
	cfg, reason, message := ForPod(podWith(v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: many}), Cluster{})
	if reason != "DNSConfigForming" ||
		!strings.HasSuffix(message, "the applied nameserver line is: 1.1.1.1 1.1.1.2 1.1.1.3") ||
		len(cfg.Servers) != 3 {
		t.Errorf("%s: %s %v", reason, message, cfg.Servers)
	}
	long := &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}}
	for i := range 33 {
		long.Searches = append(long.Searches, fmt.Sprintf("%02d.%s", i, strings.Repeat("x", 97)))
	}
	cfg, reason, _ = ForPod(podWith(v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: long}), Cluster{})
	if line := strings.Join(cfg.Searches, " "); reason != "DNSConfigForming" || len(line) > maxSearchChars ||
		len(cfg.Searches) != 20 {
		t.Errorf("%s: %d characters, %d domains", reason, len(line), len(cfg.Searches))
	}
}

func TestParse(t *testing.T) {
	got := Parse(
		"# c\n; d\nnameserver 1.1.1.1 # x\nnameserver\nsearch old\nsearch a.b. . c\noptions ndots:1 rotate\noptions ndots:3\n  nameserver fd00::1\r\n")
	if fmt.Sprint(got) != "{[1.1.1.1 fd00::1] [a.b c] [ndots:3 rotate]}" {
		t.Errorf("%v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("nameserver 1.1.1.1\nsearch a.b. .\noptions ndots:5 ndots:1\n")
	f.Add("search\n#\n;\x00")
	f.Fuzz(func(t *testing.T, text string) {
		c := Parse(text)
		for _, word := range slices.Concat(c.Servers, c.Options) {
			if word == "" || strings.ContainsAny(word, " \t\n") {
				t.Fatalf("%q gives the word %q", text, word)
			}
		}
		names := map[string]bool{}
		for _, o := range c.Options {
			name, _, _ := strings.Cut(o, ":")
			if names[name] {
				t.Fatalf("%q gives the option %q twice", text, name)
			}
			names[name] = true
		}
		cfg, _, _ := ForPod(podWith(v1.PodSpec{DNSPolicy: v1.DNSDefault}), Cluster{Host: c})
		if len(cfg.Servers) > maxServers || len(cfg.Searches) > maxSearches ||
			len(strings.Join(cfg.Searches, " ")) > maxSearchChars {
			t.Fatalf("%q goes over the bounds: %+v", text, cfg)
		}
	})
}

func TestNameOf(t *testing.T) {
	long := strings.Repeat("a", 62) + "-" + strings.Repeat("b", 20)
	for name, c := range map[string]struct {
		pod  string
		spec v1.PodSpec
		want string // host, domain, kernel; or the error
	}{
		"plain":               {"web-0", v1.PodSpec{}, "web-0||web-0"},
		"long":                {long, v1.PodSpec{}, long[:62] + "||" + long[:62]},
		"hostname, subdomain": {"web-0", v1.PodSpec{Hostname: "h", Subdomain: "sub"}, "h|sub.ns.svc.cluster.local|h"},
		"FQDN": {"web-0", v1.PodSpec{Hostname: "h", Subdomain: "sub", SetHostnameAsFQDN: ptr(true)},
			"h|sub.ns.svc.cluster.local|h.sub.ns.svc.cluster.local"},
		"FQDN, no subdomain": {"web-0", v1.PodSpec{SetHostnameAsFQDN: ptr(true)}, "web-0||web-0"},
		"FQDN too long": {strings.Repeat("a", 40), v1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: ptr(true)},
			"FQDN " + strings.Repeat("a", 40) +
				".sub.ns.svc.cluster.local is too long (64 characters is the max, 65 characters requested)"},
		"host network": {"web-0", v1.PodSpec{HostNetwork: true, Subdomain: "sub", SetHostnameAsFQDN: ptr(true)},
			"web-0|sub.ns.svc.cluster.local|node1"},
		"override": {"web-0",
			v1.PodSpec{HostnameOverride: ptr("a.b"), Hostname: "h", Subdomain: "sub", SetHostnameAsFQDN: ptr(true)},
			"a.b||a.b"},
		"hostname not a label": {"web-0", v1.PodSpec{Hostname: "a.b"}, `pod Hostname "a.b" is not a valid DNS label`},
		"override with a line": {"web-0", v1.PodSpec{HostnameOverride: ptr("a\nb")}, "is not a valid DNS subdomain"},
	} {
		p := podWith(c.spec)
		p.Name = c.pod
		n, err := NameOf(p, "node1", "cluster.local")

		got := n.Host + "|" + n.Domain + "|" + n.Kernel
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
