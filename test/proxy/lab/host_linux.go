package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// HostOptions of AddHost.
type HostOptions struct {
	// Name of the host and of its Node object; required.
	Name string
	// Build of Windows; 0 is 20348.
	Build int
	// NetworkType of the pods' network: L2Bridge ("" too) or Overlay. See JoinOverlay.
	NetworkType string
	// NoDataPlane: HNS keeps state only; pods have no network. For benchmarks.
	NoDataPlane bool
	// NoWine: no Windows program can run. For tests of the Lab's other parts.
	NoWine bool
	// Isolated: programs of the host see only the services and slices that carry Label(Name), so that tests on several
	// hosts do not see each other's. Objects made through the Host carry it.
	Isolated bool
	// IPv6: the pods' network has an IPv6 range too.
	IPv6 bool
}

// NetworkName of the pods' network on every host, and of the host's own endpoint in it.
const (
	NetworkName  = "porthole"
	HostEndpoint = NetworkName + "_ep"
)

// Host is an emulated Windows host.
type Host struct {
	Place // the host itself
	// Dir is its folder: prefix/drive_c, hnsd/, hnsd.sock, logs.
	Dir string
	// Pods is the range of its pods; Pods6 is invalid without IPv6.
	Pods, Pods6 netip.Prefix
	// HNS of the host, and its way to the API server.
	HNS *HNS
	API *API
	// NetworkID of the pods' network.
	NetworkID string

	lab        *Lab
	member     *member
	o          HostOptions
	tools      wine.Tools
	prefix     wine.Prefix
	boots      int // that NextBoot played
	mount      wine.Mount
	stopServer func() error // of Wine; nil if there is none
	stopHNS    func() error // nil if it does not run
	plane      *dataplane.DataPlane
	ctx        context.Context // carries the log of HNS
	log        *os.File

	mu    sync.Mutex
	procs []*testkit.Process
	pods  int
	next  int // number of the next log
}

// AddHost makes a host and starts its HNS; its Node object is made as well. Close of the Lab closes it, if the caller
// does not.
func (l *Lab) AddHost(ctx context.Context, o HostOptions) (*Host, error) {
	if o.Build == 0 {
		o.Build = 20348
	}
	if o.NetworkType == "" {
		o.NetworkType = "L2Bridge"
	}
	m, err := l.join(o.Name)
	if err != nil {
		return nil, err
	}

	h := &Host{Place: Place{Name: o.Name, Netns: m.netns, Addr: m.addr}, Dir: filepath.Join(l.Dir, o.Name),
		Pods: m.pods, lab: l, member: m, o: o}
	if o.IPv6 {
		h.Addr6, h.Pods6 = m.addr6, m.pods6
	}
	if o.NetworkType == "Overlay" {
		if err := l.hidePods(m); err != nil {
			return nil, err
		}
	}

	l.mu.Lock()
	l.hosts = append(l.hosts, h)
	l.mu.Unlock()
	steps := []func() error{
		func() error { return os.MkdirAll(filepath.Join(h.Dir, "hnsd"), 0o755) },
		func() error { return h.startWine(ctx) },
		h.prepareHNS,
		func() error { return h.startHNS(ctx) },
		func() error { return h.makeNetwork(ctx) },
		func() error { return h.meetAPI(ctx, uint16(7000+m.number)) },
	}

	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("making host %s: %w", o.Name, err)
		}
	}

	return h, nil
}

// startWine gives the host its C: and its wineserver.
func (h *Host) startWine(ctx context.Context) (err error) {
	if h.o.NoWine {
		return nil
	}
	if h.tools, err = wine.Find(); err != nil {
		return err
	}
	build, err := wine.LookupBuild(h.o.Build)
	if err != nil {
		return err
	}

	// The template outlives the Lab: making one takes ten seconds.
	template := wine.TemplateDir(filepath.Join(h.lab.o.Bin, "proxy-lab"), h.o.Build)
	dlls := filepath.Join(h.lab.o.Bin, "windows", "dll")
	if err := h.tools.EnsureTemplate(ctx, wine.TemplateOptions{Dir: template, Build: build, DLLDir: dlls}); err != nil {
		return err
	}
	h.mount = wine.PrefixMount(template, h.Dir)
	if err := h.mount.Ensure(); err != nil {
		return err
	}
	h.prefix = wine.Prefix{Dir: h.mount.Target}

	if _, err := wine.InstallDLLs(h.prefix, dlls); err != nil {
		return err
	}
	boot, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	h.stopServer, err = h.tools.StartServer(boot, h.prefix,
		func(cmd *exec.Cmd) error { return platform.StartInNetns(h.Netns, cmd) })
	return err
}

// NextBoot makes programs that start from now on see a later boot of the host. It ends no program, and does nothing to
// HNS.
func (h *Host) NextBoot(ctx context.Context) error {
	h.boots++
	const key = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	cmd := h.tools.Command(ctx, h.prefix, `C:\windows\system32\reg.exe`, "add", key, "/v", "BootId", "/t", "REG_DWORD",
		"/d", strconv.Itoa(1000+h.boots), "/f")
	if err := platform.StartInNetns(h.Netns, cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

func (h *Host) prepareHNS() (err error) {
	if h.log, err = os.Create(filepath.Join(h.Dir, "hnsd.log")); err != nil {
		return err
	}
	h.ctx = klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(h.log))))
	h.HNS = newHNS(h.Netns, h.Dir)
	if !h.o.NoDataPlane {
		h.plane, err = dataplane.New(dataplane.Options{Netns: h.Netns, Uplink: Uplink})
	}
	return err
}

// startHNS starts HNS. The control interface's POST /service stops it for a while.
func (h *Host) startHNS(ctx context.Context) error {
	o := serve.Options{HostDir: h.Dir, Build: h.o.Build, Netns: h.Netns, Listen: wire.HNSAddress, Uplink: Uplink,
		Plane: serve.NoDataPlane{}}
	if h.plane != nil {
		o.Plane = h.plane
	}

	run, cancel := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	os.Remove(control.Socket(h.Dir))
	go func() { done <- serve.Run(run, o) }()
	h.stopHNS = func() error {
		cancel()
		return <-done
	}
	return wait.For(ctx, 20*time.Second, "HNS", func(ctx context.Context) error {
		select {
		case err := <-done:
			done <- err
			return fmt.Errorf("it ended: %w", err)
		default:
			return h.HNS.Control(ctx, "GET", "/healthz", nil, nil)
		}
	})
}

// gateway and hostAddr are HNS's address in the pods' range and the host's own.
func (h *Host) gateway() netip.Addr  { return nth(h.Pods, 1) }
func (h *Host) hostAddr() netip.Addr { return nth(h.Pods, 2) }

// Uplink takes the host's link to the switch up or down.
func (h *Host) Uplink(on bool) error {
	return platform.InNetns(h.Netns, func() error {
		if on {
			return h.member.linkUp()
		}
		link, err := netlink.LinkByName(Uplink)
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
}

// adapter is what Windows calls the host's only network card.
const adapter = "Ethernet"

// makeNetwork makes the pods' network and the host's endpoint in it, as `porthole routes` does.
func (h *Host) makeNetwork(ctx context.Context) (err error) {
	subnet := func(p netip.Prefix) object {
		s := object{"IpAddressPrefix": p.String(), "Routes": []object{defaultRoute(nth(p, 1))}}
		if h.o.NetworkType == "Overlay" {
			s["Policies"] = []object{{"Type": "VSID", "Settings": object{"IsolationId": overlayID}}}
		}
		return s
	}

	subnets := []object{subnet(h.Pods)}
	if h.o.IPv6 {
		subnets = append(subnets, subnet(h.Pods6))
	}
	doc := object{"Name": NetworkName, "Type": h.o.NetworkType,
		"Ipams": []object{{"Type": "Static", "Subnets": subnets}}, "SchemaVersion": schema}
	if h.o.NetworkType == "Overlay" {
		doc["Flags"] = 8
		doc["Policies"] = []object{{"Type": "NetAdapterName", "Settings": object{"NetworkAdapterName": adapter}},
			{"Type": "HostRoute"}}
	}

	if h.NetworkID, err = h.HNS.Create(ctx, Network, "", doc); err != nil {
		return fmt.Errorf("making the pods' network: %w", err)
	}
	if h.o.NetworkType == "Overlay" {
		return nil // no host endpoint: pods reach their host through the overlay's own
	}
	addrs := []object{configured(h.hostAddr(), h.Pods)}
	if h.o.IPv6 {
		addrs = append(addrs, configured(nth(h.Pods6, 2), h.Pods6))
	}

	ep, err := h.HNS.Create(ctx, Endpoint, h.NetworkID,
		object{"Name": HostEndpoint, "HostComputeNetwork": h.NetworkID, "IpConfigurations": addrs,
			"Routes": []object{defaultRoute(netip.IPv4Unspecified())}, "SchemaVersion": schema})
	if err != nil {
		return fmt.Errorf("making the host's endpoint: %w", err)
	}
	d, err := h.HNS.Dump(ctx)
	if err != nil {
		return err
	}

	for _, n := range d.Namespaces {
		if kind := n.Text("Type"); kind == "Host" || kind == "HostDefault" {
			return errors.Join(h.attach(ctx, n.Text("ID"), ep), h.forward())
		}
	}

	return errors.New("HNS has no namespace of the host")
}

// forward lets packets of pods pass the host, as `porthole routes` does, which has to say so of the adapters with the
// node's address and with that of the host's endpoint.
func (h *Host) forward() error {
	if h.plane == nil {
		return nil
	}
	var adapters []int
	err := platform.InNetns(h.Netns, func() error {
		list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		for _, a := range list {
			if addr, ok := netip.AddrFromSlice(a.IP.To4()); ok && (addr == h.Addr || addr == h.hostAddr()) {
				adapters = append(adapters, a.LinkIndex)
			}
		}
		return err
	})
	for _, index := range adapters {
		for _, six := range []bool{false, true} {
			err = errors.Join(err, h.plane.SetForwarding(index, six, true))
		}
	}
	return err
}

var schema = object{"Major": 2, "Minor": 0}

// configured is an address of an endpoint in a network's range, as HNS has it.
func configured(addr netip.Addr, in netip.Prefix) object {
	return object{"IpAddress": addr.String(), "PrefixLength": in.Bits()}
}

// defaultRoute is the way to everything in a gateway's family, as HNS has it.
func defaultRoute(via netip.Addr) object {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if via.Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return object{"NextHop": via.String(), "DestinationPrefix": all.String()}
}

func (h *Host) attach(ctx context.Context, namespace, endpoint string) error {
	return h.HNS.Modify(ctx, Namespace, namespace,
		object{"ResourceType": "Endpoint", "RequestType": "Add", "Settings": object{"EndpointId": endpoint}})
}

// meetAPI makes the host's relay, its kubeconfig and its Node object.
func (h *Host) meetAPI(ctx context.Context, port uint16) (err error) {
	if h.lab.o.NoAPI {
		return nil
	}
	only := ""
	if h.o.Isolated {
		only = Label(h.Name)
	}
	if h.API, err = h.lab.newAPI(port, only); err != nil {
		return err
	}
	if !h.o.NoWine {
		if err := testkit.WriteJSON(filepath.Join(h.prefix.DriveC(), "k", "kubeconfig"),
			kubeconfig(h.API.Addr)); err != nil {
			return err
		}
	}
	return h.lab.register(ctx, h.Place, "windows", h.Pods, h.Pods6)
}

// register makes the Node object.
func (l *Lab) register(ctx context.Context, p Place, system string, pods, pods6 netip.Prefix) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{
		corev1.LabelHostname: p.Name, corev1.LabelOSStable: system, corev1.LabelTopologyZone: "zone-" + p.Name}}}
	n.Spec.PodCIDR = pods.String()
	n.Spec.PodCIDRs = []string{pods.String()}
	if pods6.IsValid() {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, pods6.String())
	}
	made, err := l.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if l.o.ControlPlane != nil && apierrors.IsAlreadyExists(err) {
		return nil // the other Lab's, with the same addresses
	}
	if err != nil {
		return err
	}
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: p.Addr.String()}}
	if p.Addr6.IsValid() {
		made.Status.Addresses = append(made.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: p.Addr6.String()})
	}
	_, err = l.Client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// Close ends the host's programs and takes its C: away. Closing twice is success.
func (h *Host) Close() error {
	h.mu.Lock()
	procs := h.procs
	h.procs = nil
	h.mu.Unlock()
	for _, p := range procs {
		p.Kill()
	}
	var errs []error
	if h.stopHNS != nil {
		errs = append(errs, h.stopHNS())
		h.stopHNS = nil
	}
	if h.API != nil {
		h.API.Cut()
	}

	if h.stopServer != nil {
		errs = append(errs, h.stopServer())
		h.stopServer = nil
	}

	if h.mount.Target != "" {
		errs = append(errs, h.mount.Unmount())
		h.mount.Target = ""
	}
	if h.plane != nil {
		h.plane.Close()
		h.plane = nil
	}
	if h.log != nil {
		h.log.Close()
		h.log = nil
	}

	return errors.Join(errs...)
}
