package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// birdPath is where Debian's package has BIRD; it is on no user's path.
const birdPath = "/usr/sbin/bird"

// reflector starts BIRD as a route reflector on the host "api", which announces the ranges of that many nodes and that
// of "flan". It takes the part of the agents of simulated nodes.
// It learns the nodes as static routes, and gives them to both sides with the node as next hop.
func (b *routesBench) reflector(ctx context.Context, count int) error {
	if _, err := os.Stat(birdPath); err != nil {
		return fmt.Errorf("%w: make deps", err)
	}
	conf := "router id " + routesAPI + ";\nlog stderr all;\nprotocol device { }\nprotocol static { ipv4;\ninclude \"" +
		b.birdFile("nodes") + "\";\n}\n"
	// Both sides are clients of the reflector, in one AS.
	for _, side := range []string{"10.99.0.11", "10.99.0.12"} {
		conf += fmt.Sprintf(
			"protocol bgp { local %s as 64512; neighbor %s as 64512; connect retry time 1; rr client;\n"+
				"ipv4 { import all; export filter { if source = RTS_STATIC then bgp_next_hop = gw; accept; }; next hop keep; }; }\n", routesAPI, side)
	}
	err := errors.Join(b.writeNodes(count), os.WriteFile(b.birdFile("reflector.conf"), []byte(conf), 0o600),
		os.WriteFile(filepath.Join(b.dir, "bgp.yaml"),
			[]byte("asNumber: 64512\nconnectRetry: 1s\npeers:\n- {peerIP: "+routesAPI+", asNumber: 64512}\n"), 0o600))
	if err != nil {
		return err
	}

	b.router, err = b.bird("api", "reflector")
	if err != nil {
		return err
	}
	return wait.For(ctx, 10*time.Second, "BIRD", func(context.Context) error {
		_, err := os.Stat(b.birdFile("reflector.ctl"))
		return err
	})
}

func (b *routesBench) endReflector() { end(b.router) }

// birdFile is the path of a file of BIRD: a configuration, a control socket or a file with a
// process ID.
func (b *routesBench) birdFile(name string) string { return filepath.Join(b.dir, "bird-"+name) }

// bird starts BIRD on a host with the configuration of that name.
func (b *routesBench) bird(host, name string) (*exec.Cmd, error) {
	return b.start(host, "bird-"+name, nil, birdPath, "-f", "-c", b.birdFile(name+".conf"), "-s",
		b.birdFile(name+".ctl"), "-P", b.birdFile(name+".pid"))
}

// birdPeer starts BIRD as the agent of a node, as Calico does.
func (b *routesBench) birdPeer(s *routesSide) (*exec.Cmd, error) {
	conf := fmt.Sprintf(
		"router id %s;\nlog stderr all;\nprotocol device { }\nprotocol direct { ipv4; }\nprotocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }\n"+
			"protocol bgp { local %s as 64512; neighbor %s as 64512; connect retry time 1; ipv4 { import all; export none; }; }\n", s.addr, s.addr, routesAPI)
	if err := os.WriteFile(b.birdFile("peer.conf"), []byte(conf), 0o600); err != nil {
		return nil, err
	}
	return b.bird(s.name, "peer")
}

// writeNodes writes the ranges that the reflector announces.
func (b *routesBench) writeNodes(count int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "route %s via 10.99.0.12;\n", podRange(routesPeer))
	for i := range count {
		fmt.Fprintf(&text, "route %s via %s;\n", podRange(i), simAddr(i))
	}
	return os.WriteFile(b.birdFile("nodes"), []byte(text.String()), 0o600)
}

// reflect makes the reflector announce that many nodes.
// BIRD reads its configuration again while its sessions stay up.
func (b *routesBench) reflect(ctx context.Context, count int) error {
	if err := b.writeNodes(count); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, birdPath+"c", "-s", b.birdFile("reflector.ctl"), "configure").CombinedOutput()
	if err != nil {
		return fmt.Errorf("birdc configure: %w: %s", err, out)
	}
	return nil
}
