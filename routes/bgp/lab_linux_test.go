package bgp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/table"
)

// hosts are the nodes of the tests, each with a pod address of its range.
var hosts = []struct {
	name, addr, pods, pod string
}{
	{"lin01", "10.99.0.11", "10.244.1.0/24", "10.244.1.10"},
	{"lin02", "10.99.0.12", "10.244.2.0/24", "10.244.2.10"},
	{"lin03", "10.99.0.13", "10.244.3.0/24", "10.244.3.10"},
}

const torAddr = "10.99.0.1"

var cluster = netip.MustParsePrefix("10.244.0.0/16")

// rack is the nodes and a router on one switch. Packets to pods of other nodes take the default route to the router,
// until the agents know better.
type rack struct {
	t      *testing.T
	sw     *netspace.Space
	tor    *netspace.Space
	host   []*netspace.Space
	agents []*agent
}

func newRack(t *testing.T) *rack {
	t.Helper()
	r := &rack{t: t, sw: netspace.New(t, "switch"), tor: netspace.New(t, "tor")}
	r.tor.Connect("eth0", r.sw, "tor")
	r.tor.Address("eth0", torAddr+"/24")
	r.router(r.tor)
	ports := []string{"tor"}
	for _, h := range hosts {
		host := netspace.New(t, h.name)
		host.Connect("eth0", r.sw, h.name)
		host.Address("eth0", h.addr+"/24")
		host.Address("lo", h.pod+"/32")
		host.Route("0.0.0.0/0", torAddr)
		host.Forward()
		r.host = append(r.host, host)
		ports = append(ports, h.name)
	}
	r.sw.Bridge("sw0", ports...)
	return r
}

// router makes a namespace forward packets, out of the interface that they came in on too.
func (r *rack) router(s *netspace.Space) {
	s.Forward()
	s.Sysctls(map[string]string{"net/ipv4/conf/all/send_redirects": "0", "net/ipv4/conf/eth0/send_redirects": "0"})
}

// nodes returns the nodes of the cluster.
func nodes() []table.Node {
	var list []table.Node
	for _, h := range hosts {
		list = append(list, table.Node{Name: h.name, Addr: netip.MustParseAddr(h.addr),
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix(h.pods)}})
	}
	return list
}

// start starts an agent on each node. config returns the configuration of the node of an index.
func (r *rack) start(config func(int) string) {
	r.t.Helper()
	for i, h := range hosts {
		a := newAgent(r.t, r.host[i].Path, agentNode{Name: h.name, Addr: netip.MustParseAddr(h.addr), Cluster: cluster},
			config(i))
		a.nodes(nodes())
		a.start()
		r.agents = append(r.agents, a)
	}
}

// complete waits until every agent has all its routes.
func (r *rack) complete(limit time.Duration) {
	r.t.Helper()
	for i, a := range r.agents {
		wait.NoError(r.t, limit, hosts[i].name+" to have all routes", func() error {
			if s := a.status(); !s.Complete() || s.Wanted != len(hosts) {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
	}
}

// routes returns our routes of a namespace, as "DESTINATION via HOP and HOP".
func (r *rack) routes(path string) []string {
	r.t.Helper()
	var found []string
	if err := platform.InNetns(path, func() error {
		list, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: fib.Protocol},
			netlink.RT_FILTER_PROTOCOL)
		for _, route := range list {
			var hops []string
			if route.Gw != nil {
				hops = append(hops, route.Gw.String())
			}
			for _, path := range route.MultiPath {
				hops = append(hops, path.Gw.String())
			}
			found = append(found, route.Dst.String()+" via "+strings.Join(hops, " and "))
		}
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// wantRoutes waits until our routes of a node are exactly these.
func (r *rack) wantRoutes(i int, limit time.Duration, want ...string) time.Duration {
	r.t.Helper()
	begin := time.Now()
	wait.NoError(r.t, limit, "the routes of "+hosts[i].name, func() error {
		if got := r.routes(r.host[i].Path); !slices.Equal(got, want) {
			return fmt.Errorf("they are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
	return time.Since(begin)
}

// direct are the routes of a node straight to the two others.
func direct(i int) []string {
	var list []string
	for j, h := range hosts {
		if j != i {
			list = append(list, h.pods+" via "+h.addr)
		}
	}
	return list
}

// writes counts the changes of our routes in a namespace until the test ends or stop is called.
func (r *rack) writes(path string) (stop func() []string) {
	r.t.Helper()
	var mu sync.Mutex
	var seen []string
	done, updates := make(chan struct{}), make(chan netlink.RouteUpdate, 100)
	if err := platform.InNetns(path, func() error { return netlink.RouteSubscribe(updates, done) }); err != nil {
		r.t.Fatal(err)
	}

	var reading sync.WaitGroup
	reading.Go(func() {
		for u := range updates {
			if u.Protocol == fib.Protocol {
				mu.Lock()
				seen = append(seen, fmt.Sprintf("%d %s", u.Type, u.Route))
				mu.Unlock()
			}
		}
	})

	end := sync.OnceFunc(func() { close(done); reading.Wait() })
	r.t.Cleanup(end)
	return func() []string {
		end()
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// ping sends count pings from one pod to another, one each interval, and returns how many were lost.
func (r *rack) ping(from, to, count int, interval time.Duration) (lost int) {
	r.t.Helper()
	received := 0
	conn, err := r.echo(from, to)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	answers := make(chan struct{}, count)
	go func() {
		buf := make([]byte, 64)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			answers <- struct{}{}
		}
	}()

	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := range count {
		conn.Write([]byte{byte(i)})
		<-tick.C
	}
	for end := time.After(500 * time.Millisecond); ; {
		select {
		case <-answers:
			if received++; received == count {
				return 0
			}
		case <-end:
			return count - received
		}
	}
}

// echo returns a UDP connection between two pods whose far end answers each datagram.
func (r *rack) echo(from, to int) (net.Conn, error) {
	end := func(i int) netspace.End { return netspace.End{Netns: r.host[i].Path, Addr: hosts[i].pod} }
	return netspace.Echo(r.t, end(from), end(to))
}

// reach fails the test if one pod does not reach another.
func (r *rack) reach() {
	r.t.Helper()
	if err := r.cut(); err != nil {
		r.t.Error(err)
	}
}

// cut says which pods do not reach which others.
func (r *rack) cut() error {
	var errs []error
	for from := range hosts {
		for to := range hosts {
			if from != to && r.ping(from, to, 1, time.Millisecond) != 0 {
				errs = append(errs, fmt.Errorf("%s does not reach %s", hosts[from].pod, hosts[to].pod))
			}
		}
	}
	return errors.Join(errs...)
}

var nexthopID = regexp.MustCompile(`nhid \d+ `)

// kernelRoutes returns what `ip route` prints in a namespace, without the numbers of FRR's next hop objects.
func kernelRoutes(t *testing.T, s *netspace.Space) string {
	t.Helper()
	out, err := exec.Command("ip", "-n", s.Name, "route").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return nexthopID.ReplaceAllString(string(out), "")
}
