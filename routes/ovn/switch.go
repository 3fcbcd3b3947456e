package ovn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/ovsdb"
)

const database = "Open_vSwitch"

// Keys in external_ids of br-ex with the addresses and routes that the card had, as lists in JSON.
const (
	addressKey = "porthole-addresses"
	routeKey   = "porthole-routes"
)

// vswitch is the host's Open vSwitch. It keeps one connection, and makes a new one when that has ended. It is safe for
// concurrent use.
type vswitch struct {
	address string

	mu      sync.Mutex
	client  *ovsdb.Client
	cache   *ovsdb.Cache
	changed func()
}

var columns = map[string][]string{
	"Open_vSwitch": {"external_ids", "bridges", "datapath_types", "next_cfg", "cur_cfg"},
	"Bridge":       {"name", "datapath_type", "ports", "external_ids"},
	"Port":         {"name", "interfaces", "external_ids"},
	"Interface":    {"name", "type", "mac", "external_ids", "options", "error"},
}

// open returns the connection and the copy of its tables.
func (v *vswitch) open(ctx context.Context) (*ovsdb.Client, *ovsdb.Cache, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client != nil && v.client.Err() == nil {
		return v.client, v.cache, nil
	}
	client, err := ovsdb.Dial(ctx, v.address)
	if err != nil {
		return nil, nil, fmt.Errorf("is Open vSwitch installed and running on this node (--ovn-db)? %w", err)
	}
	cache, err := client.Monitor(ctx, database, columns, v.wake)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	v.client, v.cache = client, cache
	return client, cache, nil
}

func (v *vswitch) wake() {
	v.mu.Lock()
	changed := v.changed
	v.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// watch reports changes until ctx or the connection ends.
func (v *vswitch) watch(ctx context.Context, changed func()) error {
	v.mu.Lock()
	v.changed = changed
	v.mu.Unlock()
	client, _, err := v.open(ctx)
	if err != nil {
		return err
	}
	changed()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-client.Done():
		return client.Err()
	}
}

// observe reads keys and bridges.
func (v *vswitch) observe(ctx context.Context) (Seen, error) {
	_, cache, err := v.open(ctx)
	if err != nil {
		return Seen{}, err
	}
	tables := cache.Tables()
	seen := Seen{Keys: map[string]string{}, Bridges: map[string]Bridge{}, Links: map[string]Link{},
		Addrs: map[netip.Addr]int{}}
	if len(tables["Open_vSwitch"]) == 0 {
		return seen, errors.New("the database of Open vSwitch is empty: `ovs-vsctl init` makes its first row")
	}
	for _, row := range tables["Open_vSwitch"] {
		seen.Keys = row.Map("external_ids")
		seen.Datapaths = row.Texts("datapath_types")
		seen.Pending = row.Text("next_cfg") != row.Text("cur_cfg")
	}

	for _, row := range tables["Bridge"] {
		b := Bridge{Datapath: row.Text("datapath_type"), Ports: map[string]Interface{}}
		for key, list := range map[string]any{addressKey: &b.Addrs, routeKey: &b.Routes} {
			text := row.Map("external_ids")[key]
			if text == "" {
				continue
			}
			if err := json.Unmarshal([]byte(text), list); err != nil {
				return seen, fmt.Errorf("external_ids:%s of bridge %s: %w", key, row.Text("name"), err)
			}
		}
		for _, port := range row.UUIDs("ports") {
			for _, id := range tables["Port"][port].UUIDs("interfaces") {
				i := tables["Interface"][id]
				b.Ports[i.Text("name")] = Interface{Pod: podOf(i.Map("external_ids")),
					PodMTU: mtuOf(i.Map("external_ids")), Kind: i.Text("type"), MAC: i.Text("mac"),
					ID: i.Map("external_ids")["iface-id"], Remote: i.Map("options")["remote_ip"],
					Chassis: chassisOf(tables["Port"][port].Map("external_ids")["ovn-chassis-id"]),
					Error:   i.Text("error")}
			}
		}
		seen.Bridges[row.Text("name")] = b
	}
	return seen, nil
}

// podOf returns the address of the pod whose interface has these external_ids. The CNI plugin writes both.
func podOf(ids map[string]string) netip.Prefix {
	at, err := netip.ParsePrefix(ids[ovnet.AddressKey])
	if err != nil || ids[ovnet.SandboxKey] == "" {
		return netip.Prefix{}
	}
	return at
}

// mtuOf returns the MTU that a pod's interface was made with; 0: not known.
func mtuOf(ids map[string]string) int {
	n, err := strconv.Atoi(ids[ovnet.MTUKey])
	if err != nil {
		return 0
	}
	return n
}

// chassisOf returns the other end of a tunnel. ovn-controller writes CHASSIS@ADDRESS, with %ADDRESS behind it since
// 23.09 (controller/encaps.c). The name of the port has the first bytes of the chassis only.
func chassisOf(id string) string {
	chassis, _, _ := strings.Cut(id, "@")
	return chassis
}

// apply carries out a change of the database. ok is false if c is another kind of change.
func (v *vswitch) apply(ctx context.Context, c Change) (ok bool, err error) {
	var ops []ovsdb.Op
	switch c.Verb {
	case SetKeys:
		names := names(c.Keys)
		// The mutator insert does not change the value of a key that is there, so the key is deleted first.
		ops = append(ops, ovsdb.Mutate("Open_vSwitch", nil,
			ovsdb.Mutation{Column: "external_ids", Mutator: "delete", Value: names},
			ovsdb.Mutation{Column: "external_ids", Mutator: "insert", Value: ovsdb.Map(c.Keys)}))
	case DeleteKeys:
		ops = append(ops, ovsdb.Mutate("Open_vSwitch", nil,
			ovsdb.Mutation{Column: "external_ids", Mutator: "delete", Value: names(c.Keys)}))
	case AddBridge:
		ops = addBridge(c)
	case DeleteBridge:
		return true, v.deleteRow(ctx, "Bridge", c.Name, "Open_vSwitch", "bridges")
	case AddPort:
		ops = addPort(c)
	case SetMAC:
		ops = append(ops, ovsdb.Update("Interface", ovsdb.Equal("name", c.Name), map[string]any{"mac": c.MAC}))
	case Remember:
		ops = append(ops, ovsdb.Mutate("Bridge", ovsdb.Equal("name", c.Name),
			ovsdb.Mutation{Column: "external_ids", Mutator: "delete", Value: ovsdb.Set{addressKey, routeKey}},
			ovsdb.Mutation{Column: "external_ids", Mutator: "insert", Value: notes(c)}))
	case DeletePort:
		return true, v.deleteRow(ctx, "Port", c.Name, "Bridge", "ports")
	default:
		return false, nil
	}

	client, _, err := v.open(ctx)
	if err != nil {
		return true, err
	}
	_, err = client.Transact(ctx, database, append(ops, ovsdb.NextConfig())...)
	return true, err
}

func names(keys map[string]string) (list ovsdb.Set) {
	for k := range keys {
		list = append(list, k)
	}
	return list
}

// notes are the external_ids of br-ex by which a later run knows which addresses and routes the bridge is to have.
func notes(c Change) ovsdb.Map {
	text := func(list any) string {
		data, _ := json.Marshal(list) // addresses and numbers cannot fail
		return string(data)
	}
	return ovsdb.Map{addressKey: text(append([]netip.Prefix{}, c.Addrs...)),
		routeKey: text(append([]HostRoute{}, c.Routes...))}
}

// addBridge makes a bridge with a port of its own and one for the card. It takes the card's MAC, which other hosts
// have in their ARP tables.
func addBridge(c Change) []ovsdb.Op {
	port := func(name, kind, id string) []ovsdb.Op {
		return []ovsdb.Op{
			ovsdb.Insert("Interface", "i"+id, map[string]any{"name": name, "type": kind}),
			ovsdb.Insert("Port", "p"+id, map[string]any{"name": name, "interfaces": ovsdb.Set{ovsdb.Named("i" + id)}}),
		}
	}
	ops := append(port(c.Name, "internal", "0"), port(c.Bridge, "", "1")...)
	return append(ops,
		ovsdb.Insert("Bridge", "b", map[string]any{"name": c.Name, "datapath_type": c.Kind, "fail_mode": "standalone",
			"ports": ovsdb.Set{ovsdb.Named("p0"), ovsdb.Named("p1")}, "other_config": ovsdb.Map{"hwaddr": c.MAC},
			"external_ids": notes(c)}),
		ovsdb.Mutate("Open_vSwitch", nil,
			ovsdb.Mutation{Column: "bridges", Mutator: "insert", Value: ovsdb.Set{ovsdb.Named("b")}}))
}

func addPort(c Change) []ovsdb.Op {
	return []ovsdb.Op{
		ovsdb.Insert("Interface", "i",
			map[string]any{"name": c.Name, "type": c.Kind, "mac": c.MAC, "external_ids": ovsdb.Map(c.Keys)}),
		ovsdb.Insert("Port", "p", map[string]any{"name": c.Name, "interfaces": ovsdb.Set{ovsdb.Named("i")}}),
		ovsdb.Mutate("Bridge", ovsdb.Equal("name", c.Bridge),
			ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.Set{ovsdb.Named("p")}}),
	}
}

// deleteRow takes the rows of a name out of the column of their owner's table. The database deletes what nothing
// refers to.
func (v *vswitch) deleteRow(ctx context.Context, table, name, owner, column string) error {
	client, cache, err := v.open(ctx)
	if err != nil {
		return err
	}
	for id, row := range cache.Rows(table) {
		if row.Text("name") != name {
			continue
		}
		_, err := client.Transact(ctx, database,
			ovsdb.Mutate(owner, ovsdb.Includes(column, ovsdb.Set{id}),
				ovsdb.Mutation{Column: column, Mutator: "delete", Value: ovsdb.Set{id}}),
			ovsdb.NextConfig())
		if err != nil {
			return err
		}
	}
	return nil
}
