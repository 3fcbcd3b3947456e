package tor

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/routers"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// kept is a rack whose router is kept.
type kept struct {
	*rack
	mu     sync.Mutex
	nodes  []table.Node
	keeper *keep.Keeper[[]Running, RouterChange]
}

// keep keeps the routes of the router with the command until the test ends.
func (r *rack) keep(format, command string) *kept {
	r.Helper()
	driver, err := NewDriver(format, command)
	if err != nil {
		r.Fatal(err)
	}
	k := &kept{rack: r}
	k.keeper = keep.New(NewRouter(driver, table.Cluster{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}),
		keep.Options{Nodes: func() ([]table.Node, bool) {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.nodes, k.nodes != nil
		}})

	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.keeper.Run(ctx) })
	r.Cleanup(func() { stop(); done.Wait() })
	return k
}

// set changes the nodes of the cluster, and waits until the router's kernel has exactly their routes.
func (k *kept) set(what string, nodes ...table.Node) {
	k.Helper()
	k.mu.Lock()
	k.nodes = nodes
	k.mu.Unlock()
	k.wanted = Wanted(nodes, table.Cluster{})
	k.keeper.Changed()
	k.right(what)
}

func (k *kept) right(what string) {
	k.Helper()
	started := time.Now()
	k.sees(what, true)
	k.Logf("%s: the router's routes are right after %v", what, time.Since(started).Round(time.Millisecond))
}

// repairs spoils the router's routes in turn with change, which adds or removes a line, and waits until they are right.
func (k *kept) repairs(change func(add bool, dst, hop string)) {
	k.Helper()
	one, two := node("one", "10.99.0.11", "10.244.1.0/24"), node("two", "10.99.0.12", "10.244.2.0/24")
	change(true, "10.50.0.0/24", "10.99.0.12") // of somebody else
	change(true, "10.244.9.0/24", "10.99.0.12")
	k.set("a start with a stale line", one, two)
	k.carries("at the start")

	change(false, "10.244.2.0/24", "10.99.0.12")
	k.right("a missing line")
	k.carries("a missing line")
	change(true, "10.244.2.0/24", "10.99.0.11")
	k.right("a second next hop")
	k.carries("a second next hop")

	k.set("a node with another address", node("one", "10.99.0.12", "10.244.1.0/24"),
		node("two", "10.99.0.12", "10.244.2.0/24"))
	k.set("a node is deleted", two)
	k.set("another range", one, node("two", "10.99.0.12", "10.244.2.0/25"))
	k.set("both as before", one, two)
	k.carries("both as before")

	out, err := k.run("ip", "route", "show", "10.50.0.0/24")
	if err != nil || !strings.Contains(out, "via 10.99.0.12") {
		k.Errorf("somebody else's route is %q, %v", out, err)
	}
	wait.True(k, 5*time.Second, "the status", func() bool { return k.keeper.Status().Complete() })
}

// TestKeepIP keeps the routes of a router that is a Linux kernel.
func TestKeepIP(t *testing.T) {
	r := newRack(t)
	k := r.keep("ip", "nsenter --net="+r.tor.Path+" ip")
	k.repairs(func(add bool, dst, hop string) {
		args := []string{"ip", "route", "del", dst}
		switch {
		case add && dst == "10.244.2.0/24":
			args = []string{"ip", "route", "replace", dst, "proto", "static", "nexthop", "via", "10.99.0.12", "nexthop",
				"via", hop}
		case add:
			args = []string{"ip", "route", "add", dst, "via", hop, "proto", "static"}
		}
		r.must(r.run(args...))
	})
}

// TestKeepFRR keeps those of FRR. While zebra is stopped the status says so.
func TestKeepFRR(t *testing.T) {
	r := newRack(t)
	r.router = routers.FRR(t, r.tor.Path)
	r.wanted = nil // the daemons start with nothing
	r.frr()
	k := r.keep("frr", "vtysh --vty_socket "+r.router.Dir)
	k.repairs(func(add bool, dst, hop string) {
		line := "ip route " + dst + " " + hop
		if !add {
			line = "no " + line
		}
		r.must(r.router.Vtysh("configure terminal", line))
	})

	r.router.End("zebra", syscall.SIGTERM)
	r.router.End("staticd", syscall.SIGTERM)
	wait.True(t, 10*time.Second, "a status that is not right", func() bool { return !k.keeper.Status().Complete() })
	t.Logf("FRR stopped: %s", k.keeper.Status().Error)
	if why := k.keeper.Status().Error; !strings.Contains(why, "vtysh") {
		t.Errorf("FRR stopped: %q, want an error that names vtysh", why)
	}
	k.wanted = nil
	r.frr()
	k.wanted = Wanted(k.nodes, table.Cluster{})
	k.right("FRR started again without its configuration")
	k.carries("FRR started again")
}
