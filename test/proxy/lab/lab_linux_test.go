package lab_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxy/lab"
)

const bin = "../../../bin"

// TestProxies lets our proxy and upstream's serve the same objects on hosts side by side: a pod of the host, one of a
// node, and the outside get the answers that the services promise, and the comparison with HNS agrees.
func TestProxies(t *testing.T) {
	s := lab.NewStage(t, lab.Options{Bin: bin, Prefix: "labtest"})
	node, err := s.Lab.AddNode(s.Context(), "lin1")
	s.Must(err)
	far := s.Pod(node, "far", 8080)

	s.Sub("ours", func() {
		proxied{s, node, far}.serves("ours", "203.0.113.21", func() { s.RunOurs("--node-access") })
	})
	s.Sub("upstream", func() {
		if _, err := os.Stat(filepath.Join(bin, lab.Upstream)); err != nil {
			s.Skip("upstream's kube-proxy.exe is not built: make upstream-proxy (make test-proxy does it)")
		}
		proxied{s, node, far}.serves("upstream", "203.0.113.22", func() { s.RunUpstream() })
	})
}

// proxied is a stage with a pod on a Linux node.
type proxied struct {
	*lab.Stage
	node *lab.Node
	far  *lab.Pod
}

// serves checks a proxy on a host of its own.
func (s proxied) serves(name, external string, run func()) {
	begin := time.Now()
	s.Host, s.Proxy = nil, nil
	h := s.AddHost(lab.HostOptions{Name: name, Isolated: true})
	near := s.Pod(h, "near", 8080)
	s.Logf("a host and a pod took %v", time.Since(begin))
	if r, err := near.Ask("tcp", netip.AddrPortFrom(s.far.Addr, 8080), 2*time.Second); err != nil ||
		r.Client.Addr() != near.Addr {
		s.Fatalf("pod to pod: %+v, %v", r, err)
	}
	doc := lab.Service(name, lab.Port("http", "tcp", 80, 8080), lab.Port("dns", "udp", 53, 8080))
	doc.Spec.Type, doc.Spec.ExternalIPs = "NodePort", []string{external}
	web := s.Apply(doc)
	far := lab.On(s.node.Name, s.far.Addr)
	s.Slice(web, "-a", append(lab.On(h.Name, near.Addr), far...)...)
	begin = time.Now()
	run()
	s.Settled(60 * time.Second)
	s.Logf("the proxy took %v", time.Since(begin))

	seen := map[string]bool{}
	for range 40 {
		for network, port := range map[string]uint16{"tcp": 80, "udp": 53} {
			r, err := near.Ask(network, lab.ClusterAddr(web, port), 2*time.Second)
			s.Must(err)
			seen[network+" "+r.Name] = true
		}
	}
	if len(seen) != 4 {
		s.Errorf("40 connections and datagrams found only %v", seen)
	}
	s.fromHost(web, name == "ours")
	if s.Failed() {
		return
	}

	conn, err := near.Open(lab.ClusterAddr(web, 80), 2*time.Second)
	s.Must(err)
	defer conn.Close()
	s.Must(conn.Echo(time.Second))
	s.Slice(web, "-a", far...)
	s.Settled(20 * time.Second)
	s.Proxy.Kill()
	s.Must(h.Close())
}

// fromHost asks as a program of the host does: the cluster IP answers, and so do, with our proxy, the node port and the
// external IP.
func (s proxied) fromHost(web *corev1.Service, all bool) {
	external := netip.MustParseAddr(web.Spec.ExternalIPs[0])
	for i, network := range []string{"tcp", "udp"} {
		p := web.Spec.Ports[i]
		at := map[string]netip.AddrPort{"cluster IP": lab.ClusterAddr(web, uint16(p.Port))}
		if all {
			at["node port"] = netip.AddrPortFrom(s.Host.Addr, uint16(p.NodePort))
			at["external IP"] = netip.AddrPortFrom(external, uint16(p.Port))
		}
		for what, to := range at {
			// What serves the host itself comes after what Settled waits for.
			s.Until("the "+what+" to answer a program of the host over "+network, 10*time.Second, func() error {
				_, err := s.Host.Place.Ask(network, to, 2*time.Second)
				return err
			})
		}
	}
}
