// Package dataplanetest makes up what tests of the data plane, with a kernel and without one, have their hosts carry.
package dataplanetest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// NetID is the network of most tests.
const NetID = "11111111-0000-0000-0000-000000000001"

// Churn makes random changes: load balancers and remote endpoints come, change and go.
type Churn struct {
	Rand    *rand.Rand
	Desired desired.State
	serial  int
}

func (c *Churn) addr() netip.Addr {
	return netip.AddrFrom4([4]byte{10, 244, byte(3 + c.Rand.IntN(3)), byte(1 + c.Rand.IntN(200))})
}

func (c *Churn) remote() desired.Endpoint {
	e := desired.Endpoint{ID: fmt.Sprint("r", c.serial), Network: NetID, Remote: true,
		Addrs: []netip.Prefix{netip.PrefixFrom(c.addr(), 32)}}
	if c.Rand.IntN(2) == 0 {
		e.Addrs = append(e.Addrs, netip.MustParsePrefix(fmt.Sprintf("fd00:3::%x/128", c.serial)))
	}
	return e
}

func (c *Churn) balancer(serial int) desired.LoadBalancer {
	l := desired.LoadBalancer{ID: fmt.Sprint("lb", serial), DSR: c.Rand.IntN(2) == 0}
	if c.Rand.IntN(3) == 0 {
		l.SourceVIP = netip.MustParseAddr("10.244.1.40")
	}
	vip := ""
	if c.Rand.IntN(4) > 0 {
		vip = fmt.Sprintf("10.96.%d.%d", serial/200, 1+serial%200)
		if c.Rand.IntN(3) == 0 {
			vip, l.IPv6 = fmt.Sprintf("fd96::%x", 1+serial), true
		}
		l.VIPs = []netip.Addr{netip.MustParseAddr(vip)}
	}

	for _, proto := range []uint8{6, 17} {
		l.Ports = append(l.Ports,
			desired.LBPort{Protocol: proto, ExternalPort: uint16(30000 + serial), InternalPort: 8080,
				Distribution: uint8(max(0, c.Rand.IntN(12)-9)), VIPExternalIP: c.Rand.IntN(2) == 0})
	}

	for range 1 + c.Rand.IntN(6) {
		id := "nobody"
		if n := len(c.Desired.Endpoints); n > 0 {
			id = c.Desired.Endpoints[c.Rand.IntN(n)].ID
		}
		if !slices.Contains(l.Backends, id) {
			l.Backends = append(l.Backends, id)
		}
	}
	return l
}

// Next makes one change and keeps what is desired after it.
func (c *Churn) Next() desired.Change {
	var out desired.Change
	d := &c.Desired
	d.Endpoints, d.LoadBalancers = slices.Clone(d.Endpoints), slices.Clone(d.LoadBalancers)
	c.serial++

	switch what := c.Rand.IntN(10); {
	case what < 2 || len(d.Endpoints) < 3:
		d.Endpoints = append(d.Endpoints, c.remote())
		out.Endpoints = d.Endpoints[len(d.Endpoints)-1:]
	case what < 5 || len(d.LoadBalancers) == 0:
		d.LoadBalancers = append(d.LoadBalancers, c.balancer(c.serial))
		out.LoadBalancers = d.LoadBalancers[len(d.LoadBalancers)-1:]
	case what < 6:
		if i := c.Rand.IntN(len(d.Endpoints)); d.Endpoints[i].Remote {
			out.GoneEndpoints = []string{d.Endpoints[i].ID}
			d.Endpoints = slices.Delete(d.Endpoints, i, i+1)
		}
	case what < 7:
		i := c.Rand.IntN(len(d.LoadBalancers))
		out.GoneLoadBalancers = []string{d.LoadBalancers[i].ID}
		d.LoadBalancers = slices.Delete(d.LoadBalancers, i, i+1)
	case what < 8:
		if i := c.Rand.IntN(len(d.Endpoints)); d.Endpoints[i].Remote { // another address
			d.Endpoints[i].Addrs = []netip.Prefix{netip.PrefixFrom(c.addr(), 32)}
			out.Endpoints = d.Endpoints[i : i+1]
		}
	default:
		i := c.Rand.IntN(len(d.LoadBalancers))
		serial, err := strconv.Atoi(strings.TrimPrefix(d.LoadBalancers[i].ID, "lb"))
		if err != nil {
			panic(err) // balancer makes the ids
		}
		d.LoadBalancers[i] = c.balancer(serial)
		out.LoadBalancers = d.LoadBalancers[i : i+1]
	}
	return out
}
