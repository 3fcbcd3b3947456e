package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
)

// ours are the CNI plugins of this repository that these tests run under Wine.
var ours = []string{"win-bridge", "win-overlay", "wincni"}

// pluginHost is a host with our plugins in C:\ours.
type pluginHost struct{ *bridgeHost }

func startPluginHost(t *testing.T, build int) pluginHost {
	h := pluginHost{startBridgeHost(t, build)}
	h.install()
	return h
}

func (h pluginHost) install() {
	h.t.Helper()
	dir := filepath.Join(h.prefix.DriveC(), "ours")
	must(h.t, os.MkdirAll(dir, 0o755))
	args := []string{"build", "-ldflags", "-s -w", "-o", dir + "/"}
	for _, name := range ours {
		args = append(args, "porthole.dev/porthole/cmd/"+name)
	}
	h.build(".", "go", args...)
}

// pod is a sandbox of a test: a Linux network namespace that HNS knows under an id.
type pod struct{ container, path, id string }

func (h pluginHost) pod(container string) pod {
	h.t.Helper()
	var bound struct{ ID string }
	path := h.netns(container)
	h.control("POST", "/netns", fmt.Sprintf(`{"path": %q}`, path), &bound)
	return pod{container, path, bound.ID}
}

// cni is one call of a plugin of ours.
type cni struct {
	exe, command, config string
	pod                  pod
	env                  []string
}

// run makes the call. The error holds what the plugin wrote.
func (h pluginHost) run(c cni) (stdout, stderr string, err error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\ours\`+c.exe+".exe")
	cmd.Env = append(cmd.Env, "CNI_COMMAND="+c.command, "CNI_CONTAINERID="+c.pod.container, "CNI_NETNS="+c.pod.id, "CNI_IFNAME=eth0", `CNI_PATH=C:\ours`)
	cmd.Env = append(cmd.Env, c.env...)
	cmd.Stdin = strings.NewReader(c.config)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	must(h.t, platform.StartInNetns(h.path, cmd))
	if err = cmd.Wait(); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s\n%s", c.exe, c.command, err, out.String(), errOut.String())
	}
	return out.String(), errOut.String(), err
}

func (h pluginHost) mustRun(c cni) string {
	h.t.Helper()
	out, _, err := h.run(c)
	must(h.t, err)
	return out
}

// leases lists the addresses that plugins on this host keep for a network.
func (h pluginHost) leases(network string) (names []string) {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.prefix.DriveC(), "var/lib/cni/networks", network, "1*"))
	must(h.t, err)
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	return names
}

// give adds an address to a device of a network namespace.
func give(t *testing.T, netns, device, address string) {
	t.Helper()
	must(t, platform.InNetns(netns, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, addr)
	}))
}

const seedNetwork = `{"Name": "l2bridge", "Type": "L2Bridge", "Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.10.187.64/26",
 "Routes": [{"NextHop": "10.10.187.65", "DestinationPrefix": "0.0.0.0/0"}]}]}], "SchemaVersion": {"Major": 2, "Minor": 0}}`

// TestWincni runs the configurations of the Windows guide and of the handbook, byte for byte, on a host with the addresses that they
// speak of: the pod has the gateway and the policies of the file, and packets go as these say.
func TestWincni(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startPluginHost(t, 17763) // the Windows of the configurations' time
	h.createNetwork(seedNetwork)
	// The node of the seed has the address 10.127.132.213. It is its own network card's, as 10.99.7.21 is.
	give(t, h.path, "eth0", "10.127.132.213/25")
	give(t, h.out, "host", "10.127.132.129/25")
	give(t, h.out, "lo", "11.0.0.10/32")
	h.forward()
	must(t, platform.InNetns(h.out, func() error { // the top-of-rack router knows the pods of the node
		_, pods, err := net.ParseCIDR("10.10.187.64/26")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: pods, Gw: net.ParseIP("10.99.7.21")})
	}))

	for _, name := range []string{"seed-guide.json", "seed-handbook.json"} {
		t.Run(name, func(t *testing.T) { testSeed(t, h, name) })
	}
}

func testSeed(t *testing.T, h pluginHost, name string) {
	config, err := os.ReadFile(filepath.Join("../../../cni/wincni/testdata", name))
	must(t, err)
	before := h.counts()
	pod := h.pod("sandbox-" + strings.TrimSuffix(name, ".json"))
	call := cni{exe: "wincni", command: "ADD", config: string(config), pod: pod, env: []string{"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web"}}

	var result struct {
		CNIVersion string
		IP4        struct{ IP, Gateway string }
		DNS        struct{ Nameservers []string }
	}
	must(t, json.Unmarshal([]byte(h.mustRun(call)), &result))
	addr, _, _ := strings.Cut(result.IP4.IP, "/")
	if result.CNIVersion != "0.2.0" || !strings.HasSuffix(result.IP4.IP, "/26") || result.IP4.Gateway != "10.10.187.66" || fmt.Sprint(result.DNS.Nameservers) != "[11.0.0.10]" {
		t.Errorf("result of ADD: %+v", result)
	}
	if addr == "10.10.187.64" || addr == "10.10.187.65" || addr == "10.10.187.66" || addr == "10.10.187.127" {
		t.Errorf("the pod got %s", addr)
	}
	if again := h.mustRun(call); !strings.Contains(again, result.IP4.IP) {
		t.Errorf("a second ADD answers\n%s", again)
	}

	h.talk("host to pod", h.path, pod.path, addr+":80", "10.10.187.65")
	h.talk("pod to gateway", pod.path, h.path, "10.10.187.66:80", addr)
	h.talk("pod to outside, behind the node's address", pod.path, h.out, "203.0.113.1:80", "10.99.7.21")
	h.talk("pod to an exception", pod.path, h.out, "10.127.132.129:80", addr)
	h.talk("pod to an exception that is routed", pod.path, h.out, "11.0.0.10:80", addr)
	h.talk("pod to its node", pod.path, h.path, "10.127.132.213:80", addr)
	h.noDrift()

	if leases := h.leases("l2bridge"); len(leases) != 1 || leases[0] != addr {
		t.Errorf("addresses in use: %v, want %s", leases, addr)
	}
	call.command = "DEL"
	for range 2 {
		h.mustRun(call)
	}
	h.control("DELETE", "/netns/"+pod.id, "", nil)
	if after := h.counts(); after != before || len(h.leases("l2bridge")) > 0 {
		t.Errorf("after DEL: %s and %v, before ADD: %s", after, h.leases("l2bridge"), before)
	}
	h.noDrift()
}
