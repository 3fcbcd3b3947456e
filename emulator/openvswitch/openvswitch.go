// Package openvswitch describes Open vSwitch and OVN of Debian as the processes of a host of the lab: a Linux node's,
// or what stands for Open vSwitch for Windows on an emulated Windows host. It starts nothing.
//
// The kernel here has no openvswitch module, so bridges have the datapath of ovs-vswitchd itself (datapath_type
// netdev). The programs run in the foreground, as children of who starts them, with folders of their own for each
// host: a second host on the machine, and an Open vSwitch that the machine may run for itself, never see each other.
package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Where Debian puts the programs and the schemas.
const (
	ovsdbServer = "/usr/sbin/ovsdb-server"
	vswitchd    = "/usr/sbin/ovs-vswitchd"
	ovsdbTool   = "/usr/bin/ovsdb-tool"
	controller  = "/usr/bin/ovn-controller"
	northd      = "/usr/bin/ovn-northd"
	schemaOVS   = "/usr/share/openvswitch/vswitch.ovsschema"
	schemaNB    = "/usr/share/ovn/ovn-nb.ovsschema"
	schemaSB    = "/usr/share/ovn/ovn-sb.ovsschema"
)

// Driver is the service of the switch extension on Windows (openvswitch datapath-windows/ovsext/ovsext.inf). An
// emulated host with Open vSwitch has it in its registry.
const Driver = "OVSExt"

// Packages are those of Debian that have the programs.
var Packages = []string{"openvswitch-switch", "ovn-central", "ovn-host"}

// Ports of the databases, as OVN's documents have them.
const (
	NBPort = 6641
	SBPort = 6642
	// LocalAddress is where programs of an emulated Windows host reach the database of the host's own Open vSwitch.
	LocalAddress = "127.0.0.1:6640"
)

// Daemon is one process. It must be started again if it ends.
type Daemon struct {
	Name string
	Path string
	Args []string
	Env  []string
	// Socket is the path at which it listens when it is ready; "" if nothing waits for it.
	Socket string
	// After is the socket that must be there before it is started; "" for none.
	After string
}

// Check returns an error that names the packages that are missing.
func Check() error {
	for _, p := range []string{ovsdbServer, vswitchd, ovsdbTool, controller, northd, schemaOVS, schemaNB, schemaSB} {
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("%s is missing: install the packages %s (`make deps` does)", p,
				strings.Join(Packages, ", "))
		}
	}
	return nil
}

// Host is the Open vSwitch of one host.
type Host struct {
	Dir string // its folder; required
	// TCP also serves the database on loopback, as programs under Wine need it, which have no Unix sockets.
	TCP bool
}

// Socket is the Unix socket of the host's database.
func (h Host) Socket() string { return filepath.Join(h.Dir, "db.sock") }

func (h Host) database() string { return filepath.Join(h.Dir, "conf.db") }

// Prepare makes the folder and the database. What is there stays.
func (h Host) Prepare(ctx context.Context) error {
	_, there := os.Stat(h.database())
	if err := create(ctx, h.Dir, map[string]string{h.database(): schemaOVS}); err != nil || there == nil {
		return err
	}
	// The first row, as `ovs-vsctl init` makes it.
	out, err := exec.CommandContext(ctx, ovsdbTool, "transact", h.database(),
		`["Open_vSwitch",{"op":"insert","table":"Open_vSwitch","row":{}}]`).CombinedOutput()
	if err != nil {
		return fmt.Errorf("preparing database %s: %w: %s", h.database(), err, out)
	}
	return nil
}

// Daemons returns the database server, the switch and OVN's controller, which waits in peace until the database says
// where OVN is.
func (h Host) Daemons() []Daemon {
	env := environment(h.Dir)
	at := func(name string) string { return filepath.Join(h.Dir, name) }
	server := []string{h.database(), "--remote=punix:" + h.Socket(), "--unixctl=" + at("db.ctl"),
		"--pidfile=" + at("db.pid")}
	if h.TCP {
		address, _ := netip.ParseAddrPort(LocalAddress)
		server = append(server, fmt.Sprintf("--remote=ptcp:%d:%s", address.Port(), address.Addr()))
	}
	return []Daemon{
		{Name: "ovsdb-server", Path: ovsdbServer, Env: env, Socket: h.Socket(), Args: server},
		{Name: "ovs-vswitchd", Path: vswitchd, Env: env, After: h.Socket(),
			Args: []string{"unix:" + h.Socket(), "--unixctl=" + at("vswitchd.ctl"), "--pidfile=" + at("vswitchd.pid")}},
		// OVN 23.03 takes no --unixctl; its socket is ovn-controller.PID.ctl in OVN_RUNDIR.
		{Name: "ovn-controller", Path: controller, Env: env, After: h.Socket(),
			Args: []string{"unix:" + h.Socket(), "--pidfile=" + at("ovn-controller.pid")}},
	}
}

// Central is OVN's databases and ovn-northd, of which a cluster has one.
type Central struct {
	Dir    string
	Listen netip.Addr // of the databases
}

// NB and SB are the Unix sockets of the databases.
func (c Central) NB() string { return filepath.Join(c.Dir, "nb.sock") }
func (c Central) SB() string { return filepath.Join(c.Dir, "sb.sock") }

// NBAddress and SBAddress are what other hosts use, as Open vSwitch writes addresses.
func (c Central) NBAddress() string { return fmt.Sprintf("tcp:%s:%d", c.Listen, NBPort) }
func (c Central) SBAddress() string { return fmt.Sprintf("tcp:%s:%d", c.Listen, SBPort) }

// Prepare makes the folder and the databases. What is there stays.
func (c Central) Prepare(ctx context.Context) error {
	return create(ctx, c.Dir,
		map[string]string{filepath.Join(c.Dir, "nb.db"): schemaNB, filepath.Join(c.Dir, "sb.db"): schemaSB})
}

// Daemons returns the processes.
func (c Central) Daemons() []Daemon {
	env := environment(c.Dir)
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	server := func(name, socket string, port int) Daemon {
		return Daemon{Name: "ovn-" + name, Path: ovsdbServer, Env: env, Socket: socket,
			Args: []string{at(name + ".db"), "--remote=punix:" + socket,
				fmt.Sprintf("--remote=ptcp:%d:%s", port, c.Listen), "--unixctl=" + at(name+".ctl"),
				"--pidfile=" + at(name+".pid")}}
	}
	return []Daemon{
		server("nb", c.NB(), NBPort), server("sb", c.SB(), SBPort),
		{Name: "ovn-northd", Path: northd, Env: env, After: c.SB(),
			Args: []string{"--ovnnb-db=unix:" + c.NB(), "--ovnsb-db=unix:" + c.SB(),
				"--unixctl=" + at("northd.ctl"), "--pidfile=" + at("northd.pid")}},
	}
}

func environment(dir string) []string {
	var env []string
	for _, name := range []string{"OVS", "OVN"} {
		for _, kind := range []string{"RUNDIR", "DBDIR", "LOGDIR", "SYSCONFDIR"} {
			env = append(env, name+"_"+kind+"="+dir)
		}
	}
	return env
}

// create makes databases by their schemas.
func create(ctx context.Context, dir string, databases map[string]string) error {
	if err := Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for path, schema := range databases {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if out, err := exec.CommandContext(ctx, ovsdbTool, "create", path, schema).CombinedOutput(); err != nil {
			return fmt.Errorf("making database %s: %w: %s", path, err, out)
		}
	}
	return nil
}
