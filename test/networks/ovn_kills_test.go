package networks

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Changes of the plan of a Windows node with OVN, in the order in which an agent makes them.
const (
	keyMade     = "a key of Open vSwitch"
	portMade    = "the node's own port"
	addressMade = "its address"
	podsRouted  = "the route to the pods"
	allRouted   = "the route to the services"
)

// ovnKills kills agents of Windows nodes with OVN.
type ovnKills struct{ faultTest }

// atEachChange deletes everything that the agent of win01 made, and kills the next agent as soon as it has made a
// change: the first in the first round, and so on. The agent after that puts everything right.
func (f ovnKills) atEachChange() {
	f.t.Helper()
	before := f.settledTables()
	for _, change := range []string{keyMade, portMade, addressMade, podsRouted, allRouted} {
		f.after("win01", change)
		wait.NoError(f.t, 60*time.Second, "win01 to be right after its agent was killed at "+change, func() error {
			if now := f.tables(); now != before {
				return fmt.Errorf("have\n%s\nwant\n%s", now, before)
			}
			return f.healthy()
		})
		// ovn-controller registers the node anew, and those of the others make their tunnels anew.
		wait.NoError(f.t, 60*time.Second, "packets to pass after "+change, f.pinged("a-win01", "a-win02"))
	}
}

// after ends the agent of a node, takes away what it made, and kills the next agent when that has made a change.
func (f ovnKills) after(node, change string) {
	f.t.Helper()
	// the supervisor waits longer each time before it starts another agent
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	name := node + "/routes"
	old := f.pids(name)[0]
	if err := syscall.Kill(old, syscall.SIGSTOP); err != nil { // else it would put back at once what is deleted
		f.t.Fatal(err)
	}
	f.deleteAll(node)
	made, err := f.changes(ctx, node)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}

	seen := []string{}
	for !slices.Contains(seen, change) {
		select {
		case what := <-made:
			seen = append(seen, what)
		case <-ctx.Done():
			f.t.Fatalf("the agent of %s did not make %s, but %q", node, change, seen)
		}
	}
	if err := syscall.Kill(f.pids(name)[0], syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	f.t.Logf("killed at %s, after %q", change, seen)
}

func (f ovnKills) deleteAll(node string) {
	f.t.Helper()
	if _, err := ovs(node, "del-port", "br-int", "k8s-"+node, "--", "remove", "open", ".", "external_ids",
		"ovn-encap-type"); err != nil {
		f.t.Fatal(err)
	}
	wait.NoError(f.t, 20*time.Second, "the port of "+node+" to go", func() error {
		if err := ip(node, "link", "show", "k8s-"+node)(); err == nil {
			return fmt.Errorf("k8s-%s is still there", node)
		}
		return nil
	})
}

// changes sends what appears on a node until ctx ends: nothing of it may be there when it is called.
func (f ovnKills) changes(ctx context.Context, node string) (<-chan string, error) {
	made := make(chan string, 100)
	client, err := ovsdb.Dial(ctx, "unix:"+filepath.Join(dir, "hosts", node, "openvswitch/db.sock"))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, client.Close)
	woken := make(chan struct{}, 1)
	cache, err := client.Monitor(ctx, "Open_vSwitch",
		map[string][]string{"Open_vSwitch": {"external_ids"}, "Port": {"name"}}, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	if err != nil {
		return nil, err
	}

	go func() {
		for told := map[string]bool{}; ; {
			select {
			case <-ctx.Done():
				return
			case <-woken:
			}
			for _, what := range inSwitch(cache, node) {
				if !told[what] {
					told[what] = true
					made <- what
				}
			}
		}
	}()
	return made, f.kernelChanges(ctx, node, made)
}

// inSwitch returns what of the agent's is in the database of a node's Open vSwitch.
func inSwitch(cache *ovsdb.Cache, node string) (list []string) {
	for _, row := range cache.Rows("Open_vSwitch") {
		if row.Map("external_ids")["ovn-encap-type"] != "" {
			list = append(list, keyMade)
		}
	}
	for _, row := range cache.Rows("Port") {
		if row.Text("name") == "k8s-"+node {
			list = append(list, portMade)
		}
	}
	return list
}

// kernelChanges sends which addresses and routes of the agent's appear in a node's kernel, to which an emulated host
// hands them.
func (f ovnKills) kernelChanges(ctx context.Context, node string, made chan<- string) error {
	addrs, routes := make(chan netlink.AddrUpdate, 100), make(chan netlink.RouteUpdate, 100)
	err := platform.InNetns(platform.NetnsPath("porthole-"+node), func() error {
		if err := netlink.AddrSubscribe(addrs, ctx.Done()); err != nil {
			return err
		}
		return netlink.RouteSubscribe(routes, ctx.Done())
	})
	if err != nil {
		return err
	}

	own := strings.TrimSuffix(f.podRange(node), "0/24")
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case a := <-addrs:
				if a.NewAddr && strings.HasPrefix(a.LinkAddress.String(), own) {
					made <- addressMade
				}
			case r := <-routes:
				switch {
				case r.Type != unix.RTM_NEWROUTE || r.Dst == nil:
				case r.Dst.String() == "10.244.0.0/16":
					made <- podsRouted
				case r.Dst.String() == "10.96.0.0/16":
					made <- allRouted
				}
			}
		}
	}()
	return nil
}
