package killtest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/vxlan"
)

// What makes the device of lin01, with the MAC address that lin01 announces.
const (
	addDevice  = "link add flannel.4096 address 02:00:00:00:00:11 mtu 1450 type vxlan local 10.0.0.11 dev eth0 nolearning id 4096 dstport "
	addAddress = "addr add 10.244.1.0/32 dev flannel.4096"
	setUp      = "link set flannel.4096 up"
)

// mistakes make a device whose entries are wrong, missing and stale, and two of others.
var mistakes = []string{
	addDevice + "4789", addAddress, setUp,
	"neigh replace 10.244.2.0 lladdr 02:00:00:00:00:99 dev flannel.4096 nud permanent",
	"bridge fdb append 02:00:00:00:00:12 dev flannel.4096 dst 10.0.0.99 self permanent",
	"route add 10.244.2.0/24 via 10.0.0.12 proto 201",
	"neigh replace 10.244.3.0 lladdr 02:00:00:00:00:13 dev flannel.4096 nud permanent",
	"neigh replace 10.244.9.0 lladdr 02:00:00:00:00:09 dev flannel.4096 nud permanent",
	"bridge fdb append 02:00:00:00:00:09 dev flannel.4096 dst 10.0.0.9 self permanent",
	"route add 10.244.9.0/24 via 10.244.9.0 dev flannel.4096 onlink proto 201",
	"neigh replace 192.0.2.1 lladdr 02:00:00:00:00:77 dev flannel.4096 nud permanent",
	"bridge fdb append 02:00:00:00:00:77 dev flannel.4096 dst 10.0.0.77 self permanent",
}

// vxlanRight is what the agent of lin01 leaves.
var vxlanRight = []string{
	"device flannel.4096 mtu 1450 02:00:00:00:00:11 vxlan id 4096 local 10.0.0.11 dev eth0 dstport 4789 nolearning up",
	"address 10.244.1.0/32",
	"neighbour 10.244.2.0 lladdr 02:00:00:00:00:12 PERMANENT",
	"neighbour 10.244.3.0 lladdr 02:00:00:00:00:13 PERMANENT",
	"neighbour 10.244.4.0 lladdr 02:00:00:00:00:14 PERMANENT",
	"forward 02:00:00:00:00:12 dst 10.0.0.12 self permanent",
	"forward 02:00:00:00:00:13 dst 10.0.0.13 self permanent",
	"forward 02:00:00:00:00:14 dst 10.0.0.14 self permanent",
	"10.244.2.0/24 via 10.244.2.0 dev flannel.4096 proto 201 onlink",
	"10.244.3.0/24 via 10.244.3.0 dev flannel.4096 proto 201 onlink",
	"10.244.4.0/24 via 10.244.4.0 dev flannel.4096 proto 201 onlink",
	"annotation backend-data={\"VNI\":4096,\"VtepMAC\":\"02:00:00:00:00:11\"}",
	"annotation backend-type=vxlan",
	"annotation kube-subnet-manager=true",
	"annotation public-ip=10.0.0.11",
}

func TestVXLAN(t *testing.T) {
	for name, before := range map[string][]string{
		"no device": nil,
		"an old device": {addDevice + "8472", addAddress, setUp,
			"route add 10.244.2.0/24 via 10.244.2.0 dev flannel.4096 onlink proto 201"},
	} {
		t.Run(name, func(t *testing.T) { overlay(t, before, others) })
	}
	t.Run("wrong entries", func(t *testing.T) {
		overlay(t, mistakes, append(slices.Clone(others), "neighbour 192.0.2.1 lladdr 02:00:00:00:00:77 PERMANENT",
			"forward 02:00:00:00:00:77 dst 10.0.0.77 self permanent"))
	})
}

// overlay tests the mode vxlan on a host that these lines make. The node has announced a part of what it should.
func overlay(t *testing.T, before, foreign []string) {
	EachChange(t, Agent[vxlan.Kernel, vxlan.Op]{
		Mode: overlayMode,
		Host: func(t *testing.T, dir string) Host {
			s := newSpace(t)
			return Host{Start: s.start, Want: vxlanRight, Foreign: foreign,
				Before: func() error {
					if s.hasDevice() {
						if err := s.ip("link del flannel.4096"); err != nil {
							return err
						}
					}
					if err := s.routed(); err != nil {
						return err
					}
					told := announcement(0)
					delete(told, vxlan.AnnotationPublicIP)
					return errors.Join(s.ip(before...), store(dir, told))
				},
				Tables: func() ([]string, error) { return s.overlay(dir) },
			}
		},
	})
}

// announcement is what a node of the cluster announces.
func announcement(node int) map[string]string {
	return vxlan.Announcement{VNI: 4096, MAC: vxlan.MAC{2, 0, 0, 0, 0, byte(0x11 + node)},
		Public: cluster()[node].Addr}.Annotations()
}

func overlayMode(dir string) (keep.Mode[vxlan.Kernel, vxlan.Op], []table.Node, error) {
	nodes := cluster()
	for i := range nodes {
		nodes[i].Annotations = announcement(i)
	}
	own, err := stored(dir)
	if err != nil {
		return nil, nil, err
	}
	nodes[0].Annotations = own
	m, err := vxlan.New(vxlan.Options{Node: nodes[0].Name, Addr: self, Config: vxlan.Default, Cluster: pods,
		Annotate: func(_ context.Context, told map[string]string) error {
			all := maps.Clone(own)
			maps.Copy(all, told)
			return store(dir, all)
		}})
	return m, nodes, err
}

// stored returns the annotations of lin01, and store replaces them: what the API server does.
func stored(dir string) (all map[string]string, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "annotations.json"))
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}

func store(dir string, all map[string]string) error {
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "annotations.json"), data, 0o600)
}

func (s space) hasDevice() bool { return s.ip("link show flannel.4096") == nil }

// ofDevice finds what matters in what `ip -d -o link show` prints of a VXLAN device.
var ofDevice = regexp.MustCompile(
	`^\d+: (\S+): <(\S+)> (mtu \d+) .*link/ether (\S+) .*(vxlan id \d+ local \S+ dev \S+) .*(dstport \d+ \S+)`)

// overlay returns the routes, the device with its entries, and the annotations of the node.
func (s space) overlay(dir string) ([]string, error) {
	list, err := s.routes()
	if err != nil {
		return nil, err
	}
	told, err := stored(dir)
	if err != nil {
		return nil, err
	}
	for key, value := range told {
		list = append(list, "annotation "+strings.TrimPrefix(key, vxlan.AnnotationPrefix)+"="+value)
	}
	if !s.hasDevice() {
		return list, nil
	}

	link, err := s.show("-d -o link show flannel.4096")
	if err != nil {
		return nil, err
	}
	if m := ofDevice.FindStringSubmatch(link[0]); m == nil {
		list = append(list, link[0])
	} else {
		state := "down"
		if slices.Contains(strings.Split(m[2], ","), "UP") {
			state = "up"
		}
		list = append(list, strings.Join([]string{"device", m[1], m[3], m[4], m[5], m[6], state}, " "))
	}
	for _, of := range []struct{ kind, line string }{
		{"address", "-br -4 addr show flannel.4096"},
		{"neighbour", "neigh show dev flannel.4096 nud permanent"},
		{"forward", "bridge fdb show dev flannel.4096"},
	} {
		lines, err := s.show(of.line)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			if of.kind == "address" {
				line = strings.Join(strings.Fields(line)[2:], " ") // behind name and state
			}
			list = append(list, of.kind+" "+line)
		}
	}
	return list, nil
}
