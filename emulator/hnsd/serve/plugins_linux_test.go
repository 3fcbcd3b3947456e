package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
)

// ours are the CNI plugins of this repository that these tests run under Wine: one program, whose name is the first.
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
	h.build(".", "go", "build", "-ldflags", "-s -w", "-o", dir+"/", "porthole.dev/porthole/cmd/"+ours[0])
	for _, name := range ours[1:] {
		must(h.t, os.Link(filepath.Join(dir, ours[0]+".exe"), filepath.Join(dir, name+".exe")))
	}
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

// cni is one call of a plugin.
type cni struct {
	exe, command, config string // exe is relative to C:\ours, without ".exe"
	pod                  pod
	env                  []string // besides what every call has; the last of a name counts
}

// command returns the call, not started.
func (h pluginHost) command(ctx context.Context, c cni) *exec.Cmd {
	cmd := h.tools.Command(ctx, h.prefix, `C:\ours\`+c.exe+".exe")
	cmd.Env = append(cmd.Env, "CNI_COMMAND="+c.command, "CNI_CONTAINERID="+c.pod.container, "CNI_NETNS="+c.pod.id,
		"CNI_IFNAME=eth0", `CNI_PATH=C:\ours`)
	cmd.Env = append(cmd.Env, c.env...)
	cmd.Stdin = strings.NewReader(c.config)
	return cmd
}

// run makes the call. The error holds what the plugin wrote.
func (h pluginHost) run(c cni) (stdout, stderr string, err error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cmd := h.command(ctx, c)
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

// TestWincni runs the configurations of the Windows guide and of the handbook, byte for byte, on a host with the
// addresses that they speak of: the pod has the gateway and the policies of the file, and packets go as these say.
// Rows 1.61, 1.66, 1.67, 1.68.
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
	t.Run("versions", func(t *testing.T) {
		seed, err := os.ReadFile("../../../cni/wincni/testdata/seed-guide.json")
		must(t, err)
		testVersions(t, h, cni{exe: "wincni", pod: h.pod("versions")}, func(version string) string {
			return strings.Replace(string(seed), `"0.2.0"`, `"`+version+`"`, 1)
		})
	})
}

func testSeed(t *testing.T, h pluginHost, name string) {
	config, err := os.ReadFile(filepath.Join("../../../cni/wincni/testdata", name))
	must(t, err)
	before := h.counts()
	pod := h.pod("sandbox-" + strings.TrimSuffix(name, ".json"))
	call := cni{exe: "wincni", command: "ADD", config: string(config), pod: pod,
		env: []string{"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web"}}

	var result struct {
		CNIVersion string
		IP4        struct{ IP, Gateway string }
		DNS        struct{ Nameservers []string }
	}
	must(t, json.Unmarshal([]byte(h.mustRun(call)), &result))
	addr, _, _ := strings.Cut(result.IP4.IP, "/")
	if result.CNIVersion != "0.2.0" || !strings.HasSuffix(result.IP4.IP, "/26") ||
		result.IP4.Gateway != "10.10.187.66" || fmt.Sprint(result.DNS.Nameservers) != "[11.0.0.10]" {
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

// bridgeListed is the configuration of a test for win-bridge, in a version of CNI, with more fields.
func bridgeListed(version, more string) string {
	return `{"cniVersion": "` + version + `", "name": "porthole", "type": "win-bridge", "apiVersion": 2, "loopbackDSR": true,
 "policies": [{"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}}},
  {"name": "EndpointPolicy", "value": {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/16", "NeedEncap": true}}}],
 "ipam": {"type": "host-local", "subnet": "10.244.7.0/24"}` + more + `}`
}

// TestPlugins calls our win-bridge.exe with every verb and in every version of CNI, in an HNS that keeps less than it
// accepts.
// Rows 1.60, 1.65, 1.67, 1.71.
func TestPlugins(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startPluginHost(t, 20348)
	h.createNetwork(bridgeNetwork)
	p := h.pod("sandbox1")
	t.Run("verbs", func(t *testing.T) { testVerbs(t, h, p) })
	t.Run("versions", func(t *testing.T) {
		testVersions(t, h, cni{exe: "win-bridge", pod: p},
			func(version string) string { return bridgeListed(version, "") })
	})
	t.Run("bad input", func(t *testing.T) { testBadInput(t, h, p) })
	t.Run("rules that HNS forgets", func(t *testing.T) { testForgottenRules(t, h, p) })
	t.Run("host ports", func(t *testing.T) { testHostPorts(t, h, p) })
}

func testVerbs(t *testing.T, h pluginHost, p pod) {
	call := func(command, more string) cni {
		return cni{exe: "win-bridge", command: command, config: bridgeListed("1.1.0", more), pod: p}
	}
	if out := h.mustRun(call("VERSION", "")); !strings.Contains(out, `"0.2.0"`) || !strings.Contains(out, `"1.1.0"`) {
		t.Errorf("VERSION: %s", out)
	}
	h.mustRun(call("STATUS", ""))
	if _, _, err := h.run(call("CHECK", "")); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("CHECK before ADD: %v", err)
	}

	result := h.mustRun(call("ADD", ""))
	prev := `, "prevResult": ` + result
	h.mustRun(call("CHECK", prev))
	h.mustRun(call("GC", `, "cni.dev/valid-attachments": [{"containerID": "sandbox1", "ifname": "eth0"}]`))
	h.mustRun(call("CHECK", prev))
	h.mustRun(call("GC", `, "cni.dev/valid-attachments": []`))
	if leases := h.leases("porthole"); len(leases) > 0 {
		t.Errorf("addresses after GC: %v", leases)
	}
	if _, _, err := h.run(call("CHECK", prev)); err == nil {
		t.Error("CHECK succeeds after GC")
	}
	h.mustRun(call("DEL", prev))

	c := call("STATUS", "")
	c.config = strings.ReplaceAll(c.config, `"porthole"`, `"another"`)
	if _, _, err := h.run(c); err == nil || !strings.Contains(err.Error(), `"code": `) ||
		!strings.Contains(err.Error(), "another") {
		t.Errorf("STATUS without the network: %v", err)
	}
}

// testVersions: each version of CNI gets the result in its own form, from every plugin.
func testVersions(t *testing.T, h pluginHost, call cni, config func(version string) string) {
	for version, form := range map[string]string{
		"0.2.0": `"ip4": {`, "0.3.0": `"version": "4"`, "0.3.1": `"version": "4"`, "0.4.0": `"version": "4"`,
		"1.0.0": `"ips": [`, "1.1.0": `"ips": [`,
	} {
		call.command, call.config = "ADD", config(version)
		out := h.mustRun(call)
		if !strings.Contains(out, form) || !strings.Contains(out, `"cniVersion": "`+version+`"`) {
			t.Errorf("ADD of %s in %s: %s, want %s", call.exe, version, out, form)
		}
	}
	call.command, call.config = "DEL", config("0.2.0")
	h.mustRun(call)
	call.command, call.config = "ADD", config("9.9.9")
	if _, _, err := h.run(call); err == nil || !strings.Contains(err.Error(), "incompatible CNI versions") {
		t.Errorf("ADD of %s in 9.9.9: %v", call.exe, err)
	}
}

// testBadInput: a text that is not JSON is an error with its position; a field without effect is reported once.
func testBadInput(t *testing.T, h pluginHost, p pod) {
	config := bridgeListed("1.0.0", "")
	_, _, err := h.run(cni{exe: "win-bridge", command: "ADD",
		config: strings.Replace(config, `"loopbackDSR": true,`, `"loopbackDSR": true`, 1), pod: p})
	if err == nil || !strings.Contains(err.Error(), "line 2, column 2") || !strings.Contains(err.Error(), `"code": 6`) {
		t.Errorf("ADD with a comma missing: %v", err)
	}
	if out := h.mustRun(cni{exe: "win-bridge", command: "VERSION", pod: p}); !strings.Contains(out,
		"supportedVersions") {
		t.Errorf("VERSION without input: %s", out)
	}

	call := cni{exe: "win-bridge", command: "ADD",
		config: bridgeListed("1.0.0", `, "master": "Ethernet", "colour": "blue"`), pod: p}
	for i, want := range []int{2, 0} {
		_, stderr, err := h.run(call)
		must(t, err)
		if n := strings.Count(stderr, "has no effect"); n != want {
			t.Errorf("ADD no. %d warns %d times, want %d: %s", i+1, n, want, stderr)
		}
	}
	call.command = "DEL"
	h.mustRun(call)
}

// testForgottenRules: HNS accepts an endpoint and keeps it without a policy, or calls it degraded. Upstream's plugin
// reports success.
func testForgottenRules(t *testing.T, h pluginHost, p pod) {
	defer h.control("POST", "/faults", `[]`, nil)
	call := cni{exe: "win-bridge", command: "ADD", config: bridgeListed("1.0.0", ""), pod: p}
	policies := func() string {
		var d Dump
		h.control("GET", "/dump", "", &d)
		for _, e := range d.Endpoints {
			return fmt.Sprint(e)
		}
		return ""
	}

	const forget = `"action": "forget", "fields": ["SDNRoute"]`
	h.forward()
	for _, fault := range []string{forget, `"action": "late", "lateMs": 60000, "fields": ["SDNRoute", "OutBoundNAT"]`} {
		h.control("POST", "/faults", `[{"function": "HcnCreateEndpoint", `+fault+`}]`, nil)
		call.command = "ADD"
		h.mustRun(call)
		if text := policies(); !strings.Contains(text, "SDNRoute") {
			t.Errorf("ADD did not put the route back: %s", text)
		}
		h.talk("pod to outside after "+fault, p.path, h.out, "203.0.113.1:80", "10.99.7.21")
		h.noDrift()
		call.command = "DEL"
		h.mustRun(call)
	}

	call.command = "ADD"
	for fault, want := range map[string]string{
		`{"function": "Hcn*Endpoint", ` + forget + `}`:                    "is without policy SDNRoute",
		`{"function": "HcnQueryEndpointProperties", "action": "degrade"}`: "is degraded",
	} {
		h.control("POST", "/faults", `[`+fault+`]`, nil)
		if _, _, err := h.run(call); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ADD with %s: %v, want %q", fault, err, want)
		}
		if leases := h.leases("porthole"); len(leases) > 0 || policies() != "" {
			t.Errorf("ADD with %s left %v and %s", fault, leases, policies())
		}
	}
}

// testHostPorts: both protocols lead to the pod, a port that is taken is an error that says by whom, and it is free
// after DEL.
func testHostPorts(t *testing.T, h pluginHost, first pod) {
	second := h.pod("sandbox2")
	ports :=
		`, "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 8080, "containerPort": 5353, "protocol": "udp"}]}`
	call := func(command string, p pod) cni {
		return cni{exe: "win-bridge", command: command, config: bridgeListed("1.0.0", ports), pod: p}
	}
	h.forward()
	for _, p := range []pod{first, second} {
		var result struct{ IPs []struct{ Address string } }
		must(t, json.Unmarshal([]byte(h.mustRun(call("ADD", p))), &result))
		addr, _, _ := strings.Cut(result.IPs[0].Address, "/")
		h.reaches(t, p.path, "10.99.7.21:8080", addr)

		other := first
		if p == first {
			other = second
		}
		if _, _, err := h.run(call("ADD", other)); err == nil ||
			!strings.Contains(err.Error(), "host port 8080/tcp is taken by endpoint "+p.container+"_porthole") {
			t.Errorf("a port that is taken: %v", err)
		}
		if leases := h.leases("porthole"); len(leases) != 1 {
			t.Errorf("addresses after the refusal: %v", leases)
		}
		h.mustRun(call("DEL", p))
	}
	h.noDrift()
}

// reaches asks a host port from outside, over TCP and UDP, and lets the pod answer at its ports 80 and 5353.
func (h pluginHost) reaches(t *testing.T, path, at, addr string) {
	t.Helper()
	var l net.Listener
	var u net.PacketConn
	must(t, platform.InNetns(path, func() (err error) {
		if l, err = net.Listen("tcp4", addr+":80"); err != nil {
			return err
		}
		u, err = net.ListenPacket("udp4", addr+":5353")
		return err
	}))
	defer l.Close()
	defer u.Close()

	must(t, platform.InNetns(h.out, func() error {
		c, err := net.DialTimeout("tcp4", at, 2*time.Second)
		if err != nil {
			return err
		}
		c.Close()
		c, err = net.Dial("udp4", at)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("hello"))
		return err
	}))
	must(t, u.SetReadDeadline(time.Now().Add(2*time.Second)))
	got := make([]byte, 16)
	if n, _, err := u.ReadFrom(got); err != nil || string(got[:n]) != "hello" {
		t.Errorf("UDP at %s: %q %v", at, got[:n], err)
	}
}
