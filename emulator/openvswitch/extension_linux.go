package openvswitch

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
)

// Extension does on an emulated Windows host what Open vSwitch's extension of Hyper-V's switch, and its installation,
// do on Windows:
//
//   - an internal port with the name of an HNS endpoint is that endpoint's port. On Linux it would be a new interface,
//     so the type of the port is taken away once the endpoint's interface is there;
//   - the adapters of other internal ports are enabled;
//   - the card for the tunnels is a port of br-ex, whose own adapter has the card's address.
type Extension struct {
	Host   Host
	Uplink string       // the card for the tunnels
	Addr   netip.Prefix // of the tunnels
}

const integrationWait = time.Second

// Run works until ctx ends, in the network namespace of the process.
func (e Extension) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.session(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Info("Open vSwitch of the host is away", "err", err.Error())
		}
		wakeup.Pause(ctx, integrationWait)
	}
}

func (e Extension) session(ctx context.Context) error {
	if err := errors.Join(platform.StopChecksumOffload(e.Uplink), platform.DropIngress(e.Uplink)); err != nil {
		return err
	}
	client, err := ovsdb.Dial(ctx, "unix:"+e.Host.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	wake := wakeup.New()
	cache, err := client.Monitor(ctx, "Open_vSwitch",
		map[string][]string{"Interface": {"name", "type"}, "Bridge": {"name"}}, wake.Wake)
	if err != nil {
		return err
	}

	ticker := time.NewTicker(integrationWait)
	defer ticker.Stop()
	for {
		if err := errors.Join(e.bridge(ctx, client, cache), e.bind(ctx, client, cache)); err != nil {
			klog.FromContext(ctx).Info("Keeping the ports of the host's Open vSwitch", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-client.Done():
			return client.Err()
		case <-wake:
		case <-ticker.C:
		}
	}
}

// bridge keeps br-ex. A restarted ovs-vswitchd makes the interface anew, without its address.
func (e Extension) bridge(ctx context.Context, client *ovsdb.Client, cache *ovsdb.Cache) error {
	const name = "br-ex"
	there := false
	for _, row := range cache.Rows("Bridge") {
		there = there || row.Text("name") == name
	}
	if !there {
		card, err := netlink.LinkByName(e.Uplink)
		if err != nil {
			return err
		}
		_, err = client.Transact(ctx, "Open_vSwitch",
			ovsdb.Insert("Interface", "i0", map[string]any{"name": name, "type": "internal"}),
			ovsdb.Insert("Port", "p0", map[string]any{"name": name, "interfaces": ovsdb.Set{ovsdb.Named("i0")}}),
			ovsdb.Insert("Interface", "i1", map[string]any{"name": e.Uplink}),
			ovsdb.Insert("Port", "p1", map[string]any{"name": e.Uplink, "interfaces": ovsdb.Set{ovsdb.Named("i1")}}),
			ovsdb.Insert("Bridge", "b",
				map[string]any{"name": name, "datapath_type": "netdev", "fail_mode": "standalone",
					"ports":        ovsdb.Set{ovsdb.Named("p0"), ovsdb.Named("p1")},
					"other_config": ovsdb.Map{"hwaddr": card.Attrs().HardwareAddr.String()}}),
			ovsdb.Mutate("Open_vSwitch", nil,
				ovsdb.Mutation{Column: "bridges", Mutator: "insert", Value: ovsdb.Set{ovsdb.Named("b")}}))
		return err
	}

	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil // ovs-vswitchd makes it
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	if err := platform.SetAddress(name, e.Addr); err != nil {
		return err
	}
	card, err := netlink.LinkByName(e.Uplink)
	if err != nil {
		return err
	}
	addrs, err := netlink.AddrList(card, netlink.FAMILY_V4)
	for i := range addrs {
		err = errors.Join(err, netlink.AddrDel(card, &addrs[i]))
	}
	return err
}

// bind gives internal ports their interfaces.
func (e Extension) bind(ctx context.Context, client *ovsdb.Client, cache *ovsdb.Cache) error {
	for id, row := range cache.Rows("Interface") {
		if row.Text("type") != "internal" {
			continue
		}
		link, err := netlink.LinkByName(row.Text("name"))
		switch {
		case errors.As(err, &netlink.LinkNotFoundError{}):
		case err != nil:
			return err
		case link.Type() == "veth":
			if _, err := client.Transact(ctx, "Open_vSwitch",
				ovsdb.Update("Interface", ovsdb.ByUUID(id), map[string]any{"type": ""})); err != nil {
				return err
			}
		default:
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
	}
	return nil
}
