package networks

import (
	"context"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/observe"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/node/facts"
	pathpkg "porthole.dev/porthole/path"
)

// everyA is a service with a backend on each node.
const everyA = `
apiVersion: v1
kind: Service
metadata: {name: all}
spec:
  selector: {app: paths, role: a}
  ports: [{name: http, port: 80, targetPort: 8080}]
`

// untraced are the modes of --network in which traceroute shows no hop between two nodes: the packets go through a
// tunnel.
var untraced = []string{"vxlan", "ovn"}

// pathCheck compares what `porthole path` computes with what happens to packets, also after something was broken on
// purpose.
type pathCheck struct{ *fleet }

// gather asks every machine of the cluster for its facts, as `porthole path` does.
func (f pathCheck) gather() *pathpkg.Facts {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	outputs, err := observe.Facts(ctx, layout.Layout{Dir: dir, Bin: filepath.Dir(porthole)})
	if err != nil {
		f.t.Fatal(err)
	}
	all := &pathpkg.Facts{}
	for _, data := range outputs {
		var n pathpkg.Node
		if err := json.Unmarshal(data, &n); err != nil {
			f.t.Fatal(err)
		}
		all.Nodes = append(all.Nodes, n)
	}
	if all.Cluster, err = facts.ReadCluster(ctx, filepath.Join(dir, "kubeconfig")); err != nil {
		f.t.Fatal(err)
	}
	return all
}

// follow computes the paths of packets from one pod to a target, as a result and as the text that `porthole path`
// prints.
func (f pathCheck) follow(all *pathpkg.Facts, from, to string) (pathpkg.Result, string) {
	f.t.Helper()
	r, err := pathpkg.Follow(all, pathpkg.Request{From: from, To: to})
	if err != nil {
		f.t.Fatal(err)
	}
	var b strings.Builder
	r.Print(&b)
	return r, b.String()
}

// checkComputed compares the paths that `porthole path` computes with those of real packets: from pods to pods through
// the machines that answer when the TTL ends, and to a service's backends.
func (f pathCheck) checkComputed() {
	f.t.Helper()
	started := time.Now()
	f.apply(everyA)
	wait.NoError(f.t, 20*time.Second, "the service to answer on every node", func() error {
		for _, from := range nodeNames {
			if _, err := f.ask("b-"+from, fetch("http://"+f.clusterIP("all")+"/")); err != nil {
				return err
			}
		}
		return nil
	})
	all := f.gather()

	for _, from := range nodeNames {
		for _, to := range nodeNames {
			client, server := "a-"+from, "b-"+to
			r, text := f.follow(all, client, server+":8080")
			if r.First() != nil || r.Unknown() || len(r.Ways) != 1 {
				f.t.Errorf("%s reaches %s, and `porthole path` says:\n%s", client, server, text)
				continue
			}
			if from == to || slices.Contains(untraced, f.mode) {
				continue
			}
			if got := f.trace(all, client, f.addr[server]); len(got) == 0 || !slices.Equal(got[1:], r.Ways[0].Via) {
				f.t.Errorf("packets from %s to %s pass %v, and `porthole path` says:\n%s", client, server, got, text)
			}
		}
		if from != "win02" { // one node of each system: it takes some seconds
			f.compareBackends(all, "b-"+from)
		}
		for _, pair := range [][2]string{{from, "a-lin01"}, {"a-" + from, "win02:10250"}, {from, "all"},
			{"a-" + from, "203.0.113.1"}} {
			if r, text := f.follow(all, pair[0], pair[1]); r.First() != nil || r.Unknown() {
				f.t.Errorf("%s reaches %s, and `porthole path` says:\n%s", pair[0], pair[1], text)
			}
		}
	}

	out, err := command(time.Minute, porthole, "path", "--dir", dir, "a-win01", "all")
	if err != nil || !strings.Contains(out, "Nothing is wrong.") {
		f.t.Errorf("porthole path: %v\n%s", err, out)
	}
	f.t.Logf("compared with `porthole path` in %.1f s", time.Since(started).Seconds())
}

func (f pathCheck) clusterIP(service string) string {
	f.t.Helper()
	var s struct{ Spec struct{ ClusterIP string } }
	if err := get(&s, "service", service); err != nil {
		f.t.Fatal(err)
	}
	return s.Spec.ClusterIP
}

// trace returns the machines that answer when the TTL of a packet ends, the sender's own first.
func (f pathCheck) trace(all *pathpkg.Facts, from string, to netip.Addr) (machines []string) {
	f.t.Helper()
	for ttl := 1; ttl <= 8; ttl++ {
		a := hop(f.netns[from], to, ttl)
		if a.from == to {
			return machines
		}
		name := a.who()
		for _, n := range all.Nodes {
			for _, i := range n.Interfaces {
				if slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == a.from }) {
					name = n.Name
				}
			}
		}
		machines = append(machines, name)
	}
	return machines
}

// compareBackends makes connections to the service all until each backend that was computed has answered, and fails
// for another one.
func (f pathCheck) compareBackends(all *pathpkg.Facts, client string) {
	f.t.Helper()
	r, text := f.follow(all, client, "all")
	missing := map[string]bool{}
	for _, w := range r.Ways {
		for name, addr := range f.addr {
			if addr == w.Backend.Addr() {
				missing[name] = true
			}
		}
	}
	if len(missing) != len(nodeNames) || r.First() != nil {
		f.t.Errorf("service all, from %s: %s", client, text)
	}

	known := len(missing)
	for range 60 {
		out, err := f.ask(client, fetch("http://"+f.clusterIP("all")+"/"))
		if err != nil {
			f.t.Error(err)
			return
		}
		for name := range f.addr {
			if strings.Contains(out, "hostname="+name+" ") {
				if _, on := missing[name]; !on {
					f.t.Errorf("%s answered %s, which `porthole path` does not name:\n%s", name, client, text)
				}
				missing[name] = false
			}
		}
		left := 0
		for _, m := range missing {
			if m {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	f.t.Errorf("of %d backends that `porthole path` names some never answered %s: %v", known, client, missing)
}

// flaw is one thing that is broken on purpose, with packets that it stops, and the hop that `porthole path` must name.
type flaw struct {
	name     string
	from, to string // pods, a node, or a service
	breaks   func() error
	mends    func() error
	reaches  func() error // sends such packets; nil if they arrive
	at, what string
}

// checkFlaws breaks one thing at a time, while nobody repairs it. Each time packets must be lost, and `porthole path`
// must name that hop.
func (f pathCheck) checkFlaws(flaws ...flaw) {
	f.t.Helper()
	for _, flaw := range flaws {
		if err := flaw.reaches(); err != nil {
			f.t.Errorf("%s: before anything is broken: %v", flaw.name, err)
			continue
		}
		if err := flaw.breaks(); err != nil {
			f.t.Fatalf("%s: %v", flaw.name, err)
		}
		if err := flaw.reaches(); err == nil {
			f.t.Errorf("%s: packets pass all the same", flaw.name)
		}
		r, text := f.follow(f.gather(), flaw.from, flaw.to)
		if h := r.First(); h == nil || h.At != flaw.at || h.What != flaw.what {
			f.t.Errorf("%s: want a wrong %s at %s:\n%s", flaw.name, flaw.what, flaw.at, text)
		}

		if err := flaw.mends(); err != nil {
			f.t.Fatalf("%s: mending it: %v", flaw.name, err)
		}
		wait.NoError(f.t, 20*time.Second, flaw.name+": packets to pass again", flaw.reaches)
	}
}

// freeze stops processes of the cluster, so that nobody repairs what a test breaks. They go on when thaw is called, or
// the test ends.
func (f pathCheck) freeze(names ...string) (thaw func()) {
	f.t.Helper()
	pids := f.pids(names...)
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			syscall.Kill(pid, s)
		}
	}
	signal(syscall.SIGSTOP)
	thaw = func() { signal(syscall.SIGCONT) }
	f.t.Cleanup(thaw)
	return thaw
}

// pids returns the process ids of processes of the cluster, which must run.
func (f pathCheck) pids(names ...string) (pids []int) {
	f.t.Helper()
	states, err := supervise.States(filepath.Join(dir, "run"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range states {
		if slices.Contains(names, p.Name) && p.PID != 0 {
			pids = append(pids, p.PID)
		}
	}
	if len(pids) != len(names) {
		f.t.Fatalf("of %v only %d run", names, len(pids))
	}
	return pids
}

// pinged returns whether a pod gets an answer to ICMP from another.
func (f pathCheck) pinged(from, to string) func() error {
	return func() error { return ping(f.netns[from], f.addr[to], probe{}).err() }
}

// ip returns a call of iproute2 on a machine of the lab.
func ip(machine string, args ...string) func() error {
	return func() error {
		_, err := commandIn("porthole-"+machine, shortly, "ip", args...)
		return err
	}
}

// setting returns a change of a sysctl on a node.
func setting(node, name, value string) func() error {
	return func() error {
		return platform.InNetns(platform.NetnsPath("porthole-"+node), func() error {
			return platform.SetSysctls(map[string]string{name: value})
		})
	}
}

func (f pathCheck) hns(host string, args ...string) func() error {
	return func() error {
		_, err := command(shortly, porthole, append([]string{"host", "hns", "--dir", dir, host}, args...)...)
		return err
	}
}

// gatewayFlaws are those of host-gateway. The agents must be frozen, so that they do not repair them.
func (f pathCheck) gatewayFlaws() []flaw {
	win01, win02 := f.podRange("win01"), f.podRange("win02")
	vip := fetch("http://" + f.clusterIP("all") + "/")
	served := func() error {
		_, err := commandIn("porthole-win01", 4*time.Second, "curl", "-sS", "--fail-with-body", "-m", "2",
			"http://"+f.hostPort("a-win01", 8080)+vip+"&timeout=1s")
		return err
	}
	neighbour := []string{"10.99.0.21", "dev", "eth0"}

	return []flaw{
		{"a route of Linux is gone", "a-lin01", "a-win01", ip("lin01", "route", "del", win01),
			ip("lin01", "route", "add", win01, "via", "10.99.0.21", "dev", "eth0", "proto", "201"),
			f.pinged("a-lin01", "a-win01"), "lin01", "route"},
		{"a route of Windows is gone", "a-win01", "a-win02", ip("win01", "route", "del", win02),
			ip("win01", "route", "add", win02, "via", "10.99.0.22", "dev", "eth0", "proto", "201"),
			f.pinged("a-win01", "a-win02"), "win01", "route"},
		{"the route of the answer is gone", "a-lin01", "a-win02", ip("win02", "route", "del", f.podRange("lin01")),
			ip("win02", "route", "add", f.podRange("lin01"), "via", "10.99.0.11", "dev", "eth0", "proto", "201"),
			f.pinged("a-lin01", "a-win02"), "win02", "route"},
		{"forwarding is off", "a-lin01", "a-win01", setting("lin01", "net/ipv4/conf/porthole0/forwarding", "0"),
			setting("lin01", "net/ipv4/conf/porthole0/forwarding", "1"), f.pinged("a-lin01", "a-win01"), "lin01",
			"forwarding"},
		{"a neighbour is wrong", "a-lin01", "a-win01",
			ip("lin01", append([]string{"neigh", "replace", "lladdr", "02:00:00:00:00:99", "nud", "permanent"},
				neighbour...)...),
			ip("lin01", append([]string{"neigh", "del"}, neighbour...)...), f.pinged("a-lin01", "a-win01"), "lin01",
			"neighbour"},
		{"load balancers are gone", "a-win01", "all", f.hns("win01", "lose", "LoadBalancer"),
			func() error { return nil }, served, "win01", "service"},
	}
}

// testFlaws breaks what gatewayFlaws lists. The load balancers come last: the service proxy makes them again once it
// goes on.
func (f pathCheck) testFlaws() {
	thaw := f.freeze("lin01/routes", "win01/routes", "win02/routes", "win01/kube-proxy")
	flaws := f.gatewayFlaws()
	f.checkFlaws(flaws[:len(flaws)-1]...)
	last := flaws[len(flaws)-1]
	last.mends = func() error {
		thaw()
		return f.hns("win01", "service", "running")()
	}
	f.checkFlaws(last)
}

// overlayFlaws are those of VXLAN. The agents must be frozen, so that they do not repair them.
func (f pathCheck) overlayFlaws() []flaw {
	const dev = "flannel.4096"
	win01 := f.podRange("win01")
	hop, _, _ := strings.Cut(win01, "/")
	n, err := f.overlay("win01")
	if err != nil {
		f.t.Fatal(err)
	}
	mac := ""
	if out, err := commandIn("porthole-lin01", shortly, "ip", "neigh", "show", hop, "dev", dev); err != nil {
		f.t.Fatal(err)
	} else if words := strings.Fields(out); slices.Contains(words, "lladdr") {
		mac = words[slices.Index(words, "lladdr")+1]
	}

	fdb := func(verb, to string) func() error {
		return func() error {
			_, err := commandIn("porthole-lin01", shortly, "bridge", "fdb", verb, mac, "dev", dev, "dst", to, "self",
				"permanent")
			return err
		}
	}
	lin := f.podRange("lin01")
	i := slices.IndexFunc(n.routes(), func(s string) bool { return strings.Contains(s, lin) })
	if i < 0 {
		f.t.Fatalf("win01 has no policy for %s: %v", lin, n.routes())
	}
	policy := func(request string) func() error {
		return func() error { f.modify("win01", n, request, n.routes()[i]); return nil }
	}

	return []flaw{
		{"a forwarding entry is stale", "a-lin01", "a-win01", fdb("replace", "10.99.0.99"),
			fdb("replace", "10.99.0.21"), f.pinged("a-lin01", "a-win01"), "lin01", "tunnel"},
		{"a forwarding entry is gone", "a-lin01", "a-win01", fdb("del", "10.99.0.21"), fdb("replace", "10.99.0.21"),
			f.pinged("a-lin01", "a-win01"), "lin01", "forwarding"},
		{"a neighbour entry is stale", "a-lin01", "a-win01",
			ip("lin01", "neigh", "replace", hop, "lladdr", "00:15:5d:00:99:99", "dev", dev, "nud", "permanent"),
			ip("lin01", "neigh", "replace", hop, "lladdr", mac, "dev", dev, "nud", "permanent"),
			f.pinged("a-lin01", "a-win01"), "lin01", "forwarding"},
		{"a route is gone", "a-lin01", "a-win01", ip("lin01", "route", "del", win01),
			ip("lin01", "route", "add", win01, "via", hop, "dev", dev, "onlink", "proto", "201"),
			f.pinged("a-lin01", "a-win01"), "lin01", "route"},
		{"the policy of the answer is gone", "a-lin01", "a-win01", policy("Remove"), policy("Add"),
			f.pinged("a-lin01", "a-win01"), "win01", "tunnel"},
	}
}
