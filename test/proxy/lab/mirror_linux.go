package lab

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// RoutePrefix is RouteTo for all addresses of a prefix. What the host or node does not serve and sends back is lost.
func (l *Lab) RoutePrefix(to netip.Prefix, p Place) error {
	return platform.InNetns(l.netns("sw"), func() error {
		lost := netlink.NewRule()
		lost.IifName = "sw0"
		lost.Dst = platform.IPNet(to)
		lost.Type = unix.FR_ACT_BLACKHOLE
		lost.Priority = 100
		if err := netlink.RuleAdd(lost); err != nil {
			return fmt.Errorf("ending what comes back for %s: %w", to, err)
		}
		return route(to, p.Addr)
	})
}

// outboundNAT is what a Linux node's CNI network does: pods have the node's address in the outside world. kube-proxy
// leaves that alone.
const outboundNAT = `
add table ip outbound
add chain ip outbound post { type nat hook postrouting priority 110; }
add rule ip outbound post ip saddr %[1]s ip daddr != { %[1]s, %[2]s } masquerade
`

// prepare makes the node one on which upstream's kube-proxy works: packets between pods of one bridge meet its rules
// too.
func (n *Node) prepare() error {
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader(fmt.Sprintf(outboundNAT, PodRange, Underlay))
	var out strings.Builder
	nft.Stderr = &out
	err := platform.InNetns(n.Netns, func() error {
		if err := platform.SetSysctls(map[string]string{"net/bridge/bridge-nf-call-iptables": "1"}); err != nil {
			return err
		}
		return nft.Start()
	})
	if err != nil {
		return err
	}
	if err := nft.Wait(); err != nil {
		return fmt.Errorf("translating addresses of pods: %w: %s", err, out.String())
	}
	return nil
}

// RunUpstream starts upstream's kube-proxy on the node, once, with a KubeProxyConfiguration that holds the fields given
// besides those that every proxy needs.
func (n *Node) RunUpstream(config map[string]any) (*testkit.Process, error) {
	dir := filepath.Join(n.lab.Dir, n.Name)
	if n.API == nil {
		return nil, fmt.Errorf("node %s has no API server", n.Name)
	}
	if err := n.prepare(); err != nil {
		return nil, fmt.Errorf("preparing node %s for kube-proxy: %w", n.Name, err)
	}
	doc := object{"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"hostnameOverride": n.Name,
		"clientConnection": object{"kubeconfig": filepath.Join(dir, "kubeconfig")}, "clusterCIDR": PodRange.String(),
		"healthzBindAddress": fmt.Sprintf("0.0.0.0:%d", HealthPort),
		"metricsBindAddress": fmt.Sprintf("127.0.0.1:%d", MetricsPort),
		// The table of connections is the whole machine's.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}

	maps.Copy(doc, config)
	err := errors.Join(testkit.WriteJSON(filepath.Join(dir, "kubeconfig"), kubeconfig(n.API.Addr)),
		testkit.WriteJSON(filepath.Join(dir, "kube-proxy.json"), doc))
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(filepath.Join(n.lab.o.Bin, "bundle", "kube"), "kube-proxy", "--config",
		filepath.Join(dir, "kube-proxy.json"))
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	p, err := testkit.StartProcess("kube-proxy on "+n.Name, n.Netns, filepath.Join(dir, "kube-proxy.log"), cmd)
	if err != nil {
		return nil, err
	}
	n.lab.mu.Lock()
	defer n.lab.mu.Unlock()
	n.lab.procs = append(n.lab.procs, p)

	return p, nil
}
