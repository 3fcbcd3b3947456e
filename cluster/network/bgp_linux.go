package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// bgp makes the router a BGP speaker: FRR, which tells each node what the others announce. Nodes are of one AS,
// the router of another, so that it has to replace their AS in what it passes on (as-override).
var bgp = Mode{
	Preflight: lacksFRR, Prepare: prepareFRR, Router: frr, Settle: learnPods, Remove: removeFRR,
	Routes: func(_ layout.Layout, _ config.Cluster, n config.Node, dir string) []string {
		separator := "/"
		if n.Windows {
			separator = `\`
		}
		return []string{"--bgp-config=" + dir + separator + bgpFile}
	},
	Files: func(config.Cluster, config.Node) map[string][]byte {
		return map[string][]byte{bgpFile: fmt.Appendf(nil,
			"asNumber: %d\nholdTime: 9s\nconnectRetry: 2s\npeers:\n- {peerIP: %s, asNumber: %d}\n", nodesAS, lab.Router,
			routerAS)}
	},
}

const (
	bgpFile   = "bgp.yaml"
	nodesAS   = 64512
	routerAS  = 64500
	frrFolder = "/usr/lib/frr"
	frrUser   = "frr" // what Debian's FRR becomes; it refuses to stay root

	zebra = "router/zebra" // name of the process

	// mgmtd is the daemon of FRR 10 and later that the others report the state of interfaces to. Without it zebra
	// repeats each report a hundred times a second (FRRouting/frr issue 17931). Earlier versions do not have it.
	mgmtd = "mgmtd"
)

func lacksFRR(l layout.Layout, _ config.Cluster) []error {
	for _, daemon := range []string{"zebra", "bgpd"} {
		if _, err := os.Stat(filepath.Join(frrFolder, daemon)); err != nil {
			return []error{fmt.Errorf(
				"%s/%s is missing: the router of --network bgp is FRR; install it with `make deps` or `apt-get install frr`", frrFolder, daemon)}
		}
	}
	for dir := filepath.Dir(l.Dir); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			return []error{fmt.Errorf(
				"the user %s cannot enter %s, in which the cluster's folder is: FRR of --network bgp needs that; choose another --dir, or `chmod o+x %s`", frrUser, dir, dir)}
		}
	}
	return nil
}

// frrSpace is the cluster's name in FRR's option -N, which keeps the sockets of several FRRs on one machine apart. FRR
// permits no dots in it.
func frrSpace(c config.Cluster) string { return strings.ReplaceAll(c.Lab().RouterNetns(), ".", "-") }

// frrOwn returns the two folders of FRR that lie outside the state folder. FRR has no option for their paths but -N,
// which puts them below fixed ones. run holds the sockets of mgmtd; state is created by FRR's daemons.
func frrOwn(c config.Cluster) (run, state string) {
	return filepath.Join("/run/frr", frrSpace(c)), filepath.Join("/var/lib/frr", frrSpace(c))
}

// removeFRR deletes the folders of frrOwn, and /run/frr if it is empty and prepareFRR made it. FRR's package makes it
// too: then it belongs to FRR's user.
func removeFRR(c config.Cluster) error {
	run, state := frrOwn(c)
	err := errors.Join(os.RemoveAll(run), os.RemoveAll(state))
	var above unix.Stat_t
	if unix.Stat(filepath.Dir(run), &above) == nil && above.Uid == 0 {
		_ = os.Remove(filepath.Dir(run)) // fails if another cluster has a folder in it
	}
	return err
}

// prepareFRR writes the configuration of the router's daemons into a folder that belongs to the user they become.
func prepareFRR(l layout.Layout, c config.Cluster) error {
	u, err := user.Lookup(frrUser)
	if err != nil {
		return fmt.Errorf("the user of FRR: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("the user of FRR: %w", err)
	}

	dir := l.Router()
	if err := platform.MakeFolder(dir, platform.Closed); err != nil {
		return err
	}
	info, err := os.Stat(l.Dir)
	if err != nil {
		return err
	}
	run, _ := frrOwn(c)
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err
	}

	return errors.Join(
		os.Chmod(l.Dir, info.Mode().Perm()|0o001), // FRR passes through
		install.File(filepath.Join(dir, "zebra.conf"), nil, 0o644),
		install.File(filepath.Join(dir, "bgpd.conf"), []byte(bgpdConfig(c)), 0o644),
		os.Chown(dir, uid, gid),
		os.Lchown(run, uid, gid), // the folder above it can be FRR's, which could put a link there
	)
}

// bgpdConfig returns the configuration of the router's bgpd. Without no ebgp-requires-policy FRR takes no route of
// another AS.
func bgpdConfig(c config.Cluster) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n timers bgp 3 9\n bgp graceful-restart restart-time 30\n", routerAS, lab.Router)
	for _, n := range c.Nodes() {
		fmt.Fprintf(&b,
			" neighbor %[1]s remote-as %[2]d\n neighbor %[1]s description %[3]s\n neighbor %[1]s timers connect 2\n neighbor %[1]s as-override\n", n.Address, nodesAS, n.Name)
	}
	return b.String()
}

// frr returns the router's daemons. They have no TCP port for their terminals; `vtysh --vty_socket DIR/router` reaches
// them.
func frr(l layout.Layout, c config.Cluster) (daemons []supervise.Process) {
	dir := l.Router()
	socket := filepath.Join(dir, "zserv.api")
	file := func(name string) string { return filepath.Join(dir, name) }
	add := func(name, follows string, flags, removes []string, wait ...supervise.Condition) {
		daemons = append(daemons, supervise.Process{
			Name: "router/" + name, Follows: follows, Path: filepath.Join(frrFolder, name),
			Netns: c.RouterNetns(), Log: l.Log(name),
			Args: append([]string{"-N", frrSpace(c), "--vty_socket", dir, "-i", file(name + ".pid"), "-P", "0",
				"--log", "stdout"}, flags...),
			Removes: append(removes, file(name+".vty")), WaitFor: wait,
		})
	}

	var managed []supervise.Condition
	if _, err := os.Stat(filepath.Join(frrFolder, mgmtd)); err == nil {
		run, _ := frrOwn(c)
		managed = []supervise.Condition{{Path: filepath.Join(run, "mgmtd_be.sock"), Dial: true}}
		add(mgmtd, "", nil, []string{managed[0].Path})
	}
	add("zebra", "", []string{"-z", socket, "-f", file("zebra.conf")}, []string{socket}, managed...)
	add("bgpd", zebra, []string{"-z", socket, "-f", file("bgpd.conf")}, nil,
		supervise.Condition{Path: socket, Dial: true})
	return daemons
}

// learnPods waits until the router has a route to the pods of each node. If it has no such route at all after
// zebraPatience, learnPods restarts zebra. The zebra of FRR 10.3 sometimes has no IPv4 addresses of the router in its
// table after its start. It then considers all next hops unreachable, and this does not end by itself. It happened in 1
// of 12 starts of a cluster; and in 1 of 100 starts of zebra alone, on two processors with eight busy loops.
func learnPods(ctx context.Context, l layout.Layout, c config.Cluster, client *kube.Cluster) error {
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return err
	}

	for began := time.Now(); ; {
		learnt, err := bgpRoutes(c)
		if err != nil {
			return err
		}
		missing := unlearnt(c.Networked(), nodes, learnt)
		if missing == nil {
			return nil
		}
		err = fmt.Errorf("the router has no route to the pods of %s (logs: %s, %s)",
			strings.Join(missing, ", "), l.Log("bgpd"), l.Log("zebra"))
		if len(learnt) > 0 {
			return err
		}
		if time.Since(began) > slow.Limit(zebraPatience) {
			return errors.Join(err, endZebra(l))
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// bgpRoutes returns the next hops of the routes that the router's BGP daemon has made.
func bgpRoutes(c config.Cluster) (map[netip.Prefix]netip.Addr, error) {
	var router platform.NetworkState
	err := platform.InNetns(c.RouterNetns(), func() (err error) {
		router, err = platform.ReadNetwork()
		return err
	})
	learnt := map[netip.Prefix]netip.Addr{}
	for _, r := range router.Routes {
		if r.Protocol == unix.RTPROT_BGP {
			learnt[r.Destination] = r.NextHop
		}
	}
	return learnt, err
}

// unlearnt returns the names of nodes to whose pod ranges no route leads through the node.
func unlearnt(want []config.Node, have []v1.Node, learnt map[netip.Prefix]netip.Addr) (missing []string) {
	ranges := map[string]netip.Prefix{}
	for _, n := range have {
		ranges[n.Name], _ = netip.ParsePrefix(n.Spec.PodCIDR) // without one there is no route either
	}
	for _, n := range want {
		if hop, ok := learnt[ranges[n.Name]]; !ok || hop != n.Address {
			missing = append(missing, n.Name)
		}
	}
	return missing
}

// zebraPatience is how long the router may be without any route when all nodes are Ready. Sessions take some 3 s from
// the start of a node's `porthole routes`.
const zebraPatience = 8 * time.Second

// endZebra ends zebra. The supervisor then starts it again, and bgpd after it: bgpd does not send its routes to a zebra
// that was restarted.
func endZebra(l layout.Layout) error {
	states, err := supervise.States(l.RunDir())
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Name == zebra {
			return s.Stop(time.Second)
		}
	}
	return nil
}
