package ovn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
)

// database is that of the host's Open vSwitch.
const database = "Open_vSwitch"

// Keys in external_ids of an interface.
const (
	idKey        = "iface-id"      // of the logical port
	versionKey   = "iface-id-ver"  // UID of the pod: the port of an earlier pod of that name is not this one
	installedKey = "ovn-installed" // ovn-controller sets it once the flows are there
	macKey       = "attached_mac"
)

// Port is the interface of a pod as a port of the bridge.
type Port struct {
	Name   string // of the interface; see ovnet.PodLink
	Kind   string // type of the interface: "" for one of the system, "internal" for one of HNS
	Bridge string
	ID     string // of the logical port
	UID    string // of the pod
	MAC    string
	IP     string
	MTU    int // of the pod's interface, in bytes
	// Container is the sandbox's id.
	Container string
}

// Switch is the host's Open vSwitch. Close it.
type Switch struct{ client *ovsdb.Client }

// OpenSwitch connects to the database.
func OpenSwitch(ctx context.Context, address string) (*Switch, error) {
	client, err := ovsdb.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Switch{client}, nil
}

// Close ends the connection.
func (s *Switch) Close() { s.client.Close() }

// Datapath returns the type of the bridge's datapath: "system" for the kernel's, "netdev" for one that ovs-vswitchd
// runs itself.
func (s *Switch) Datapath(ctx context.Context, bridge string) (string, error) {
	results, err := s.client.Transact(ctx, database,
		ovsdb.Select("Bridge", ovsdb.Equal("name", bridge), "datapath_type"))
	if err != nil {
		return "", err
	}
	if len(results[0].Rows) == 0 {
		return "",
			fmt.Errorf(
				"bridge %s is not in Open vSwitch: ovn-controller makes it when it reaches OVN's southbound database",
				bridge)
	}
	return results[0].Rows[0].Text("datapath_type"), nil
}

// AddPort makes the port, or does nothing if it is there. A port of an earlier pod of the same name is deleted,
// because it has the same iface-id and ovn-controller would bind the logical port to either.
func (s *Switch) AddPort(ctx context.Context, p Port) error {
	results, err := s.client.Transact(ctx, database,
		ovsdb.Select("Bridge", ovsdb.Equal("name", p.Bridge), "_uuid"),
		ovsdb.Select("Interface", ovsdb.Includes("external_ids", ovsdb.Map{idKey: p.ID}), "_uuid", "name",
			"external_ids"))
	if err != nil {
		return err
	}
	if len(results[0].Rows) == 0 {
		return fmt.Errorf("bridge %s is not in Open vSwitch", p.Bridge)
	}

	var ops []ovsdb.Op
	for _, row := range results[1].Rows {
		if row.Text("name") == p.Name && row.Map("external_ids")[versionKey] == p.UID {
			return nil
		}
		drop, err := s.deletion(ctx, ovsdb.UUID(row.Text("_uuid")))
		if err != nil {
			return err
		}
		ops = append(ops, drop...)
	}
	ids := ovsdb.Map{idKey: p.ID, versionKey: p.UID, macKey: p.MAC, ovnet.AddressKey: p.IP,
		ovnet.SandboxKey: p.Container, ovnet.MTUKey: strconv.Itoa(p.MTU)}
	ops = append(ops,
		ovsdb.Insert("Interface", "iface", map[string]any{"name": p.Name, "type": p.Kind, "external_ids": ids}),
		ovsdb.Insert("Port", "port",
			map[string]any{"name": p.Name, "interfaces": ovsdb.Set{ovsdb.Named("iface")},
				"external_ids": ovsdb.Map{ovnet.SandboxKey: p.Container}}),
		ovsdb.Mutate("Bridge", ovsdb.Equal("name", p.Bridge),
			ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.Set{ovsdb.Named("port")}}),
		ovsdb.NextConfig())
	if _, err := s.client.Transact(ctx, database, ops...); err != nil {
		return fmt.Errorf("adding port %s to %s: %w", p.Name, p.Bridge, err)
	}
	return nil
}

// deletion returns the operations that delete the port of an interface. The database deletes the interface with it.
func (s *Switch) deletion(ctx context.Context, iface ovsdb.UUID) ([]ovsdb.Op, error) {
	results, err := s.client.Transact(ctx, database,
		ovsdb.Select("Port", ovsdb.Includes("interfaces", ovsdb.Set{iface}), "_uuid"))
	if err != nil {
		return nil, err
	}
	var ops []ovsdb.Op
	for _, row := range results[0].Rows {
		port := ovsdb.UUID(row.Text("_uuid"))
		ops = append(ops, ovsdb.Mutate("Bridge", ovsdb.Includes("ports", ovsdb.Set{port}),
			ovsdb.Mutation{Column: "ports", Mutator: "delete", Value: ovsdb.Set{port}}))
	}
	return ops, nil
}

// DeletePort deletes the port whose interface has that name. It is no error if there is none.
func (s *Switch) DeletePort(ctx context.Context, name string) error {
	results, err := s.client.Transact(ctx, database, ovsdb.Select("Interface", ovsdb.Equal("name", name), "_uuid"))
	if err != nil {
		return err
	}
	for _, row := range results[0].Rows {
		ops, err := s.deletion(ctx, ovsdb.UUID(row.Text("_uuid")))
		if err == nil {
			_, err = s.client.Transact(ctx, database, ops...)
		}
		if err != nil {
			return fmt.Errorf("deleting port %s: %w", name, err)
		}
	}
	return nil
}

// Sandboxes returns the containers' ids of the plugin's ports by the name of the port. Plugins of others, as that of
// OVN-Kubernetes, write the key sandbox too: their ports are left out.
func (s *Switch) Sandboxes(ctx context.Context) (map[string]string, error) {
	results, err := s.client.Transact(ctx, database, ovsdb.Select("Interface", nil, "name", "external_ids"))
	if err != nil {
		return nil, err
	}
	return sandboxesOf(results[0].Rows), nil
}

func sandboxesOf(interfaces []ovsdb.Row) map[string]string {
	ports := map[string]string{}
	for _, row := range interfaces {
		if container := row.Map("external_ids")[ovnet.SandboxKey]; container != "" &&
			ovnet.IsPodLink(row.Text("name")) {
			ports[row.Text("name")] = container
		}
	}
	return ports
}

// PortSeen is a port as the switch has it.
type PortSeen struct {
	There     bool
	Installed bool   // OVN's flows are there
	Problem   string // why Open vSwitch could not open the interface
	ID, UID   string
}

func (s *Switch) seen(cache *ovsdb.Cache, name string) PortSeen {
	for _, row := range cache.Rows("Interface") {
		if row.Text("name") != name {
			continue
		}
		ids := row.Map("external_ids")
		return PortSeen{There: true, Installed: ids[installedKey] == "true", Problem: row.Text("error"), ID: ids[idKey],
			UID: ids[versionKey]}
	}
	return PortSeen{}
}

func (s *Switch) monitor(ctx context.Context, changed func()) (*ovsdb.Cache, error) {
	return s.client.Monitor(ctx, database, map[string][]string{"Interface": {"name", "external_ids", "error"}}, changed)
}

// Observe returns a port as the switch has it now.
func (s *Switch) Observe(ctx context.Context, name string) (PortSeen, error) {
	cache, err := s.monitor(ctx, nil)
	if err != nil {
		return PortSeen{}, err
	}
	return s.seen(cache, name), nil
}

// AwaitInstalled waits until OVN has installed the flows of a port in the bridge. A pod that starts earlier loses its
// first packets.
func (s *Switch) AwaitInstalled(ctx context.Context, name string) error {
	changed := make(chan struct{}, 1)
	cache, err := s.monitor(ctx, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	began := time.Now()
	for {
		p := s.seen(cache, name)
		switch {
		case p.Installed:
			return nil
		case !p.There:
			return fmt.Errorf("port %s was deleted while OVN was waited for", name)
		case p.Problem != "" && time.Since(began) > openWait:
			return fmt.Errorf("interface %s: Open vSwitch cannot open it: %s", name, p.Problem)
		}

		select {
		case <-ctx.Done():
			if p.Problem != "" {
				return fmt.Errorf("interface %s: Open vSwitch cannot open it: %s", name, p.Problem)
			}
			if s.pending(context.WithoutCancel(ctx)) {
				return fmt.Errorf(
					"ovs-vswitchd has not carried out the change of its database that adds port %s (%s), within %s: does it run on this node? %w",
					name, p.ID, time.Since(began).Round(time.Second), ctx.Err())
			}
			return fmt.Errorf(
				"OVN has not bound port %s (%s) within %s: does ovn-controller run on this node and reach the southbound database, and does the pod's logical port name this node? %w",
				name, p.ID, time.Since(began).Round(time.Second), ctx.Err())
		case <-s.client.Done():
			return fmt.Errorf("waiting for OVN to bind port %s: %w", name, s.client.Err())
		case <-changed:
		case <-time.After(openWait):
		}
	}
}

// pending reports whether ovs-vswitchd has not carried out all changes of the database, as far as the database answers.
func (s *Switch) pending(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	results, err := s.client.Transact(ctx, database, ovsdb.Select("Open_vSwitch", nil, "next_cfg", "cur_cfg"))
	return err == nil && len(results[0].Rows) == 1 &&
		results[0].Rows[0].Text("next_cfg") != results[0].Rows[0].Text("cur_cfg")
}

// openWait is how long Open vSwitch may report that it cannot open an interface: it tries again when the interface
// appears.
const openWait = 3 * time.Second
