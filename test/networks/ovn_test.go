package networks

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/cluster/status"
	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/internal/platform"
)

// TestOVN: OVN routes between pods and balances services, in Geneve between the nodes' cards for tunnels. No
// kube-proxy runs. Each node has a /26.
// Rows 1.51, 1.53, 1.64.
func TestOVN(t *testing.T) {
	f := up(t, "ovn", "--node-cidr-mask-size", "26").fleet()
	f.checkPaths(promise{
		mtu: 1442, encap: "geneve", port: 6081, card: "eth1",
		tunnel: func(node string) netip.Addr {
			b := f.nodes[node].As4()
			return netip.AddrFrom4([4]byte{10, 98, 0, b[3]})
		},
		// The one router is that of the sender's switch.
		hops: func(l *lab, from, _ string) []string {
			return []string{netip.MustParsePrefix(l.podRange(from)).Addr().Next().String()}
		},
	})
	f.checkLiars("10.244.200.0/26", nil)
	pathCheck{f}.checkOVNPaths()
	f.noKubeProxy()
	f.oneProgrammer()
	f.checkPlugin()
	f.checkDriver()
}

// checkDriver runs `porthole check --probe host` on win01 and compares what it reports about Open vSwitch's driver. On
// an emulated host the driver's service is in the registry, and its file does not exist.
func (f *fleet) checkDriver() {
	f.t.Helper()
	out, err := command(6*shortly, porthole, "check", "--dir", dir, "--host", "win01", "--probe", "host", "-o", "json")
	if err != nil {
		f.t.Fatal(err)
	}
	var got struct{ Reports []check.Report }
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Reports) != 1 {
		f.t.Fatalf("%v: %s", err, out)
	}
	for line, want := range map[string]string{"ovs.driver": "start 1, ", "ovs.driver.version": "no file",
		"ovs.driver.signature": "no file", "boot.testsigning": ""} {
		if l, there := got.Reports[0].Get(line); !there || !strings.HasPrefix(l.Value, want) || l.Error != "" {
			f.t.Errorf("%s: %+v, want %q", line, l, want)
		}
	}
}

// oneProgrammer starts our kube-proxy on both kinds of nodes, which refuses, and makes a program answer as a
// kube-proxy of others does, which is reported.
func (f *fleet) oneProgrammer() {
	f.t.Helper()
	for _, start := range []struct {
		netns string
		args  []string
	}{
		{"porthole-lin01", []string{"kube-proxy", "--proxy-mode=userspace", "--service-interface=lo",
			"--hostname-override=lin01",
			"--kubeconfig=" + filepath.Join(dir, "pki", "kube-proxy.kubeconfig")}},
		{"", []string{"host", "run", "--dir", dir, "win01", "--", `C:\k\kube-proxy.exe`,
			`--config=C:\etc\kubernetes\kube-proxy.json`, "--hostname-override=win01"}},
	} {
		out, err := commandIn(start.netns, 3*shortly, porthole, start.args...)
		if err == nil || !strings.Contains(err.Error(), nodeapi.OVNProgrammer+" program this cluster's services") {
			f.t.Errorf("porthole %s beside OVN ends with %v: %s", strings.Join(start.args, " "), err, out)
		}
	}

	var listener net.Listener
	err := platform.InNetns(platform.NetnsPath("porthole-lin01"), func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:10249")
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	stranger := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("nftables")) })}
	defer stranger.Close()
	go func() { _ = stranger.Serve(listener) }()
	f.warned("NetworkProblem", []string{"lin01"}, "a kube-proxy in mode nftables", nodeapi.OVNProgrammer)
}

// noKubeProxy looks at the processes of the cluster, and at what programs the services in its place.
func (f *fleet) noKubeProxy() {
	f.t.Helper()
	out, err := command(shortly, porthole, "status", "-o", "json", "--dir", dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var s status.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		f.t.Fatal(err)
	}
	for _, n := range s.Nodes {
		for _, p := range n.Processes {
			if strings.Contains(p.Name, "kube-proxy") {
				f.t.Errorf("%s runs beside OVN", p.Name)
			}
		}
		if n.Services.Error != "" || n.Services.Present == 0 || len(n.Services.Problems) > 0 {
			f.t.Errorf("services of %s: %+v", n.Name, n.Services)
		}
	}
}
