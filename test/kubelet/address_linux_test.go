package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestNodeAddress runs kubelet.exe without --node-ip on a host with two network cards: it waits for the address that
// comes late, does not take that of a card without a way out, of a worse default route, or of HNS, and follows a
// change. What the node's address is, pods are told as status.hostIP.
func TestNodeAddress(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	h := newWindowsHost(t, bin)
	h.change(func() error { return changeAddress(netlink.AddrDel, "10.99.7.21/24") })
	h.addCard("eth1", "10.98.7.21/24")
	h.startHNS(nil)
	h.startPipe()
	h.startKubeletWith("npipe:////./pipe/containerd-containerd")
	h.logs("Waiting for an address of the node")

	// DHCP answers. The other card gets a way out too, which is worse.
	h.change(func() error {
		if err := changeAddress(netlink.AddrAdd, "10.99.7.21/24"); err != nil {
			return err
		}
		if err := defaultRoute("10.99.7.1", 0); err != nil { // first: alone, the other one would be the best
			return err
		}
		return defaultRoute("10.98.7.1", 50)
	})
	h.tells("late", "10.99.7.21")

	// The address moves to the adapter of a virtual switch, and the host's endpoint brings another default route.
	h.makeNetwork()
	h.tells("switched", "10.99.7.21")

	h.change(func() error {
		if err := changeAddress(netlink.AddrDel, "10.99.7.21/24"); err != nil {
			return err
		}
		if err := changeAddress(netlink.AddrAdd, "10.99.7.22/24"); err != nil {
			return err
		}
		return defaultRoute("10.99.7.1", 0)
	})
	h.logs(`now=["10.99.7.22"]`)
	h.tells("moved", "10.99.7.22")
}

// change does something to the host's network from outside Windows.
func (h *windowsHost) change(do func() error) {
	h.t.Helper()
	must(h.t, platform.InNetns(h.space.Path, do))
}

func changeAddress(do func(netlink.Link, *netlink.Addr) error, text string) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	return do(link, &netlink.Addr{IPNet: platform.IPNet(netip.MustParsePrefix(text))})
}

// defaultRoute puts a default route in front of others, unless it is there.
func defaultRoute(via string, metric int) error {
	any4 := netip.MustParsePrefix("0.0.0.0/0")
	err := netlink.RouteAddEcmp(&netlink.Route{Dst: platform.IPNet(any4), Gw: net.ParseIP(via).To4(), Priority: metric})
	if err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}

// addCard gives the host another network card.
func (h *windowsHost) addCard(name, addr string) {
	h.t.Helper()
	must(h.t, platform.InNetns(netspace.New(h.t, "far").Path, func() error {
		if err := platform.CreateVeth("far", name, h.space.Path); err != nil {
			return err
		}
		return platform.LinkUp("far")
	}))
	h.change(func() error {
		if err := platform.LinkUp(name); err != nil {
			return err
		}
		return platform.SetAddress(name, netip.MustParsePrefix(addr))
	})
}

// startHNS starts an HNS with everything on that its sources do not rule out. servers are the host's; nil: those of
// this machine.
func (h *windowsHost) startHNS(servers serve.DNSServers) control.Host {
	t, dir := h.t, h.t.TempDir()
	plane, err := dataplane.New(dataplane.Options{Netns: h.space.Path})
	must(t, err)
	t.Cleanup(plane.Close)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, serve.Options{HostDir: dir, Build: 20348, Profile: "ws2022-unkind", Netns: h.space.Path,
			Listen: wire.HNSAddress, Uplink: "eth0", Plane: plane, DNS: servers})
	}()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	wait.NoError(t, 10*time.Second, "the socket of HNS", func() error {
		_, err := os.Stat(control.Socket(dir))
		return err
	})
	return control.Host(dir)
}

// makeNetwork makes the pod network in HNS, with an endpoint of the host that has a gateway.
func (h *windowsHost) makeNetwork() {
	h.t.Helper()
	var conn net.Conn
	h.change(func() (err error) {
		conn, err = net.Dial("tcp4", wire.HNSAddress)
		return err
	})
	defer conn.Close()
	must(h.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	hns, err := wire.NewConn(conn, 1, "test.exe")
	must(h.t, err)
	call := func(op wire.Op, handle uint64, text string) (uint64, string) {
		id, out, err := hns.Call(wire.Request{Op: op, Handle: handle, Text: [3]string{text}})
		must(h.t, err)
		return id, out
	}

	network, _ := call(wire.On(hnsd.Network, wire.Create), 0, `{"Name": "porthole", "Type": "L2Bridge", "Policies": [{"Type": "NetAdapterName",
 "Settings": {"NetworkAdapterName": "Ethernet"}}], "Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.244.7.0/24",
 "Routes": [{"NextHop": "10.244.7.1", "DestinationPrefix": "0.0.0.0/0"}]}]}], "SchemaVersion": {"Major": 2, "Minor": 0}}`)
	endpoint, _ := call(wire.On(hnsd.Endpoint, wire.Create), network, `{"Name": "porthole_ep", "IpConfigurations": [{"IpAddress": "10.244.7.2"}],
 "SchemaVersion": {"Major": 2, "Minor": 0}}`)
	_, document := call(wire.On(hnsd.Endpoint, wire.Query), endpoint, "")
	var is struct{ ID string }
	must(h.t, json.Unmarshal([]byte(document), &is))
	namespace, _ := call(wire.On(hnsd.Namespace, wire.Create), 0,
		`{"Type": "HostDefault", "SchemaVersion": {"Major": 2, "Minor": 0}}`)
	call(wire.On(hnsd.Namespace, wire.Modify), namespace,
		`{"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": "`+is.ID+`"}}`)
}

// startKubeletWith starts kubelet.exe without an address.
func (h *windowsHost) startKubeletWith(endpoint string) {
	h.t.Helper()
	h.configure(endpoint)
	h.start(h.program(`C:\kubelet.exe`, `--config=C:\kubelet.json`, `--root-dir=C:\kubelet`, "--hostname-override=win",
		"--v=2"))
}

// logs waits until the host's programs have logged a text.
func (h *windowsHost) logs(text string) {
	h.t.Helper()
	wait.NoError(h.t, 60*time.Second, "the log line "+text, func() error { return h.logged(text) })
}

// logged returns an error if the host's programs have not logged a text.
func (h *windowsHost) logged(text string) error {
	log, err := os.ReadFile(h.log.Name())
	if err == nil && !strings.Contains(string(log), text) {
		err = fmt.Errorf("it is not there")
	}
	return err
}

// see notes what containers are given as HOST_IP, and sandboxes as DNS servers.
func (h *windowsHost) see(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any,
	error) {
	switch r := request.(type) {
	case *cri.ListContainerStatsRequest: // the fake measures nothing
		return &cri.ListContainerStatsResponse{}, nil
	case *cri.ListPodSandboxStatsRequest:
		return &cri.ListPodSandboxStatsResponse{}, nil
	case *cri.ImageFsInfoRequest:
		return &cri.ImageFsInfoResponse{}, nil
	case *cri.CreateContainerRequest:
		for _, e := range r.Config.Envs {
			if e.Key == "HOST_IP" {
				h.told.LoadOrStore(r.SandboxConfig.Metadata.Name, string(e.Value))
			}
		}
	case *cri.RunPodSandboxRequest:
		h.servers.LoadOrStore(r.Config.Metadata.Name, fmt.Sprint(r.Config.GetDnsConfig().GetServers()))
	}
	return handler(ctx, request)
}

// tells gives the kubelet a pod that asks for the node's address.
func (h *windowsHost) tells(name, want string) {
	h.t.Helper()
	p := newPod(name, "sleep")
	p.APIVersion, p.Kind, p.Spec.NodeSelector = "v1", "Pod", nil
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "HOST_IP",
		ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}}
	must(h.t, testkit.WriteJSON(h.path("manifests", name+".json"), p))
	wait.NoError(h.t, 60*time.Second, "pod "+name, func() error {
		got, ok := h.told.Load(name + "-win")
		if !ok {
			return fmt.Errorf("it does not start: the runtime was asked for\n%s", h.runtime.Calls())
		}
		if got != want {
			h.t.Fatalf("pod %s was told that its node is %s, want %s", name, got, want)
		}
		return nil
	})
}
