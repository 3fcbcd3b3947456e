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
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	bridgeConfig = `{"cniVersion": "1.0.0", "name": "porthole", "type": "win-bridge", "apiVersion": 2, "loopbackDSR": true,
 "policies": [
  {"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16", "10.96.0.0/16"]}}},
  {"name": "EndpointPolicy", "value": {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/16", "NeedEncap": true}}}],
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.7.0/24", "rangeStart": "10.244.7.3"}]]}}`
	bridgeNetwork = `{"Name": "porthole", "Type": "L2Bridge", "Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.244.7.0/24",
 "Routes": [{"NextHop": "10.244.7.1", "DestinationPrefix": "0.0.0.0/0"}]}]}], "SchemaVersion": {"Major": 2, "Minor": 0}}`
	testListen = wire.HNSAddress
)

// TestUpstreamWinBridge lets upstream's own win-bridge.exe and host-local.exe add and delete a pod under Wine: the pod
// gets its address, packets pass, and nothing is left.
// Row 1.62.
func TestUpstreamWinBridge(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startBridgeHost(t, 20348)
	h.createNetwork(bridgeNetwork)
	pod := h.netns("pod")
	before := h.counts()
	var bound struct{ ID string }
	h.control("POST", "/netns", fmt.Sprintf(`{"path": %q}`, pod), &bound)

	begin := time.Now()
	out := h.plugin("ADD", bound.ID)
	t.Logf("ADD took %v", time.Since(begin))
	var result struct {
		IPs []struct{ Address, Gateway string } `json:"ips"`
	}
	if err := json.Unmarshal(out, &result); err != nil || len(result.IPs) != 1 {
		t.Fatalf("result of ADD: %v\n%s", err, out)
	}
	if ip := result.IPs[0]; ip.Address != "10.244.7.3/24" || ip.Gateway != "10.244.7.2" {
		t.Errorf("the pod got %s via %s", ip.Address, ip.Gateway)
	}
	h.talk("host to pod", h.path, pod, "10.244.7.3:80", "10.244.7.1")
	h.talk("pod to gateway", pod, h.path, "10.244.7.2:80", "10.244.7.3")
	h.forward()
	h.talk("pod to outside", pod, h.out, "203.0.113.1:80", "10.99.7.21") // outbound NAT
	h.noDrift()

	h.plugin("DEL", bound.ID)
	h.control("DELETE", "/netns/"+bound.ID, "", nil)
	if after := h.counts(); after != before {
		t.Errorf("after DEL: %s, before ADD: %s", after, before)
	}
	h.noDrift()
	leases, err := filepath.Glob(filepath.Join(h.prefix.DriveC(), "var/lib/cni/networks/porthole/10.*"))
	must(t, err)
	if len(leases) > 0 {
		t.Errorf("addresses left: %v", leases)
	}
	must(t, platform.InNetns(pod, func() error {
		if _, err := netlink.LinkByName("eth0"); err == nil {
			t.Error("the pod still has eth0")
		}
		return nil
	}))
	h.plugin("DEL", bound.ID) // again is success
}

// bridgeHost is an emulated host made of its parts: Wine, HNS and the data plane, with an outside that is one veth
// away.
type bridgeHost struct {
	t         *testing.T
	dir       string
	path, out string
	tools     wine.Tools
	prefix    wine.Prefix
	plane     *dataplane.DataPlane
	serve     func() (stop func()) // starts HNS
	stop      func()               // ends the one that runs
}

func startBridgeHost(t *testing.T, build int) *bridgeHost { return startProfileHost(t, build, "") }

// startProfileHost is startBridgeHost with another HNS than the build's; "": the build's.
func startProfileHost(t *testing.T, build int, profile string) *bridgeHost {
	return startHostWith(t, build, func(o *Options) { o.Profile = profile })
}

// startHostWith is startBridgeHost with other options of HNS.
func startHostWith(t *testing.T, build int, adjust func(*Options)) *bridgeHost {
	h := &bridgeHost{t: t, dir: t.TempDir()}
	must(t, os.Chmod(filepath.Dir(h.dir), 0o711)) // the host's programs run as a user of their own
	host, out := netspace.New(t, "host"), netspace.New(t, "out")
	h.path, h.out = host.Path, out.Path
	must(t, confine.OpenNetwork(h.path))
	out.Connect("host", host, "eth0")
	out.Address("host", "10.99.7.1/24")
	out.Address("lo", "203.0.113.1/32")
	host.Address("eth0", "10.99.7.21/24")
	host.Route("0.0.0.0/0", "10.99.7.1")
	h.startWine()
	var err error
	h.plane, err = dataplane.New(dataplane.Options{Netns: h.path})
	must(t, err)
	t.Cleanup(h.plane.Close)
	must(t, os.MkdirAll(filepath.Join(h.dir, "hnsd"), 0o755))
	h.serve = func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			o := Options{HostDir: h.dir, Build: build, Netns: h.path, Listen: testListen, Uplink: "eth0",
				Plane: h.plane}
			adjust(&o)
			done <- Run(ctx, o)
		}()
		wait.NoError(t, 10*time.Second, "the socket of HNS", func() error {
			_, err := os.Stat(control.Socket(h.dir))
			return err
		})
		return sync.OnceFunc(func() {
			cancel()
			must(t, <-done)
		})
	}

	h.stop = h.serve()
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *bridgeHost) netns(name string) string { return netspace.New(h.t, name).Path }

// shared is what all tests of this package use and none changes: making it takes as long as the test of a host.
type shared struct{ template, plugins string }

// sharedParts makes a Wine template, and builds upstream's CNI plugins for Windows, once for all tests. TestMain
// removes both.
var sharedParts = sync.OnceValues(func() (parts shared, err error) {
	if sharedDir, err = os.MkdirTemp("", "hnsd-serve-"); err != nil {
		return parts, err
	}
	dlls, err := testkit.DLLs("../../..")
	if err != nil {
		return parts, err
	}
	parts = shared{template: wine.TemplateDir(sharedDir, 20348), plugins: filepath.Join(sharedDir, "plugins")}

	const upstream = "github.com/containernetworking/plugins/plugins"
	err = buildForWindows("../../../bundle/cni", "go", "build", "-ldflags", "-s -w", "-o", parts.plugins+"/",
		upstream+"/main/windows/win-bridge", upstream+"/main/windows/win-overlay", upstream+"/ipam/host-local")
	if err != nil {
		return parts, err
	}

	tools, err := wine.Find()
	if err != nil {
		return parts, err
	}
	build, err := wine.LookupBuild(20348)
	if err != nil {
		return parts, err
	}
	o := wine.TemplateOptions{Dir: parts.template, Build: build, DLLDir: dlls, Owner: wine.Owner}
	return parts, tools.EnsureTemplate(context.Background(), o)
})

// sharedDir is the folder of sharedParts; empty until a test needed them.
var sharedDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedDir != "" {
		os.RemoveAll(sharedDir)
	}
	os.Exit(code)
}

// startWine makes a prefix with the DLLs and puts the plugins where CNI_PATH says.
func (h *bridgeHost) startWine() {
	t := h.t
	parts, err := sharedParts()
	must(t, err)
	h.tools, err = wine.Find()
	must(t, err)
	mount := wine.PrefixMount(parts.template, h.dir)
	must(t, mount.Ensure())
	h.prefix = wine.Prefix{Dir: mount.Target}
	t.Cleanup(func() { must(t, mount.Unmount()) })
	stop, err := h.tools.StartServer(t.Context(), h.prefix,
		func(cmd *exec.Cmd) error { return platform.StartInNetns(h.path, cmd) })
	must(t, err)
	t.Cleanup(func() { must(t, stop()) })

	bin := filepath.Join(h.prefix.DriveC(), "opt/cni/bin")
	must(t, os.MkdirAll(bin, 0o755))
	for _, name := range []string{"win-bridge.exe", "win-overlay.exe", "host-local.exe"} {
		data, err := os.ReadFile(filepath.Join(parts.plugins, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(bin, name), data, 0o755))
	}
}

// writeKubeconfig writes a file of C:, with which the host's programs reach an API server.
func writeKubeconfig(t *testing.T, h *bridgeHost, name, server string) {
	t.Helper()
	path := filepath.Join(h.prefix.DriveC(), name)
	must(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "http://%s"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
 "users": [{"name": "u", "user": {}}]}`, server), 0o600))
	must(t, wine.Own(path))
}

// build runs a command that compiles for Windows.
func (h *bridgeHost) build(dir, name string, args ...string) {
	h.t.Helper()
	must(h.t, buildForWindows(dir, name, args...))
}

func buildForWindows(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// forward does for the host's adapters what `netsh interface ipv4 set interface … forwarding=enabled` does on Windows.
func (h *bridgeHost) forward() {
	h.t.Helper()
	for _, index := range h.links() {
		must(h.t, h.plane.SetForwarding(index, false, true))
	}
}

// links returns the interfaces of the host that have IPv4 addresses, by address.
func (h *bridgeHost) links() map[string]int {
	h.t.Helper()
	found := map[string]int{}
	must(h.t, platform.InNetns(h.path, func() error {
		list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		for _, a := range list {
			found[a.IP.String()] = a.LinkIndex
		}
		return err
	}))
	return found
}

// createNetwork makes the network as a Windows program would, over the wire of the DLLs.
func (h *bridgeHost) createNetwork(document string) {
	var conn net.Conn
	must(h.t, platform.InNetns(h.path, func() (err error) {
		conn, err = net.Dial("tcp4", testListen)
		return err
	}))
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	hns, err := wire.NewConn(conn, 1, "test.exe")
	must(h.t, err)
	_, _, err = hns.Call(wire.Request{Op: wire.On(hnsd.Network, wire.Create), Text: [3]string{document}})
	must(h.t, err)
}

func (h *bridgeHost) plugin(command, id string) []byte {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\opt\cni\bin\win-bridge.exe`)
	cmd.Env = append(cmd.Env, "CNI_COMMAND="+command, "CNI_CONTAINERID=sandbox1", "CNI_NETNS="+id, "CNI_IFNAME=eth0",
		`CNI_PATH=C:\opt\cni\bin`)
	cmd.Stdin = strings.NewReader(bridgeConfig)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must(h.t, platform.StartInNetns(h.path, cmd))
	if err := cmd.Wait(); err != nil {
		h.t.Fatalf("%s: %v\n%s\n%s", command, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}

// talk connects from one namespace to a server in another, which must see the given source.
func (h *bridgeHost) talk(what, from, to, addr, source string) {
	h.t.Helper()
	var l net.Listener
	must(h.t, platform.InNetns(to, func() (err error) {
		l, err = net.Listen("tcp4", addr)
		return err
	}))

	defer l.Close()
	err := platform.InNetns(from, func() error {
		c, err := net.DialTimeout("tcp4", addr, 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		seen, err := l.Accept()
		if err != nil {
			return err
		}
		defer seen.Close()
		if host, _, _ := net.SplitHostPort(seen.RemoteAddr().String()); host != source {
			return fmt.Errorf("the server saw %s, want %s", host, source)
		}
		return nil
	})
	if err != nil {
		h.t.Errorf("%s: %v", what, err)
	}
}

func (h *bridgeHost) control(method, path, body string, into any) {
	h.t.Helper()
	data, err := control.Do(h.t.Context(), h.dir, method, path, []byte(body))
	must(h.t, err)
	if into != nil {
		must(h.t, json.Unmarshal(data, into))
	}
}

func (h *bridgeHost) counts() string {
	var d Dump
	h.control("GET", "/dump", "", &d)
	return fmt.Sprintf("%d networks, %d endpoints, %d namespaces, %d load balancers", len(d.Networks), len(d.Endpoints),
		len(d.Namespaces), len(d.LoadBalancers))
}

func (h *bridgeHost) noDrift() {
	h.t.Helper()
	var v struct{ Drift []kernel.Drift }
	h.control("POST", "/verify", "", &v)
	for _, d := range v.Drift {
		h.t.Errorf("drift: %s", d.Text)
	}
}
