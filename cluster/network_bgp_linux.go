package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
)

// bgpNetwork makes the router a BGP speaker: FRR, which tells each node what the others announce. Nodes are of one AS, the router of
// another, so that it has to replace their AS in what it passes on (as-override).
var bgpNetwork = network{
	preflight: lacksFRR, prepare: prepareFRR, router: addFRR,
	routes: func(_ Layout, _ Config, n Node, dir string) []string {
		separator := "/"
		if n.Windows {
			separator = `\`
		}
		return []string{"--bgp-config=" + dir + separator + bgpFile}
	},
	files: func(Config, Node) map[string][]byte {
		return map[string][]byte{bgpFile: fmt.Appendf(nil, "asNumber: %d\nholdTime: 9s\nconnectRetry: 2s\npeers:\n- {peerIP: %s, asNumber: %d}\n", nodesAS, lab.Router, routerAS)}
	},
}

const (
	bgpFile   = "bgp.yaml"
	nodesAS   = 64512
	routerAS  = 64500
	frrFolder = "/usr/lib/frr"
	frrUser   = "frr" // what Debian's FRR becomes; it refuses to stay root
)

func lacksFRR(l Layout, _ Config) []error {
	for _, daemon := range []string{"zebra", "bgpd"} {
		if _, err := os.Stat(filepath.Join(frrFolder, daemon)); err != nil {
			return []error{fmt.Errorf("%s/%s is missing: the router of --network bgp is FRR; install it with `make deps` or `apt-get install frr`", frrFolder, daemon)}
		}
	}
	for dir := filepath.Dir(l.Dir); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			return []error{fmt.Errorf("the user %s cannot enter %s, in which the cluster's folder is: FRR of --network bgp needs that; choose another --dir, or `chmod o+x %s`", frrUser, dir, dir)}
		}
	}
	return nil
}

func frrDir(l Layout) string { return l.at("router") }

// prepareFRR writes the configuration of the router's daemons into a folder that belongs to the user they become.
func prepareFRR(l Layout, c Config) error {
	u, err := user.Lookup(frrUser)
	if err != nil {
		return fmt.Errorf("the user of FRR: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("the user of FRR: %w", err)
	}

	dir := frrDir(l)
	if err := platform.MakeFolder(dir, platform.Closed); err != nil {
		return err
	}
	info, err := os.Stat(l.Dir)
	if err != nil {
		return err
	}
	return errors.Join(
		os.Chmod(l.Dir, info.Mode().Perm()|0o001), // FRR passes through
		writeFile(filepath.Join(dir, "zebra.conf"), nil, 0o644),
		writeFile(filepath.Join(dir, "bgpd.conf"), []byte(bgpdConfig(c)), 0o644),
		os.Chown(dir, uid, gid),
	)
}

// bgpdConfig returns the configuration of the router's bgpd. Without no ebgp-requires-policy FRR takes no route of another AS.
func bgpdConfig(c Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n timers bgp 3 9\n bgp graceful-restart restart-time 30\n", routerAS, lab.Router)
	for _, n := range c.Nodes() {
		fmt.Fprintf(&b, " neighbor %[1]s remote-as %[2]d\n neighbor %[1]s description %[3]s\n neighbor %[1]s timers connect 2\n neighbor %[1]s as-override\n", n.Address, nodesAS, n.Name)
	}
	return b.String()
}

// addFRR adds the router's daemons. They have no TCP port for their terminals; `vtysh --vty_socket DIR/router` reaches them.
func addFRR(p *planner) {
	dir := frrDir(p.l)
	socket := filepath.Join(dir, "zserv.api")
	add := func(name string, removes []string, wait ...supervise.Condition) {
		file := func(suffix string) string { return filepath.Join(dir, name+suffix) }
		p.add(supervise.Process{
			Name: "router/" + name, Path: filepath.Join(frrFolder, name), Netns: platform.NetnsPath(p.c.lab().RouterNetns()), Log: p.l.Log(name),
			Args:    []string{"--vty_socket", dir, "-z", socket, "-i", file(".pid"), "-f", file(".conf"), "-P", "0", "--log", "stdout"},
			Removes: append(removes, file(".vty")), WaitFor: wait,
		})
	}
	add("zebra", []string{socket})
	add("bgpd", nil, supervise.Condition{Path: socket, Dial: true})
}
