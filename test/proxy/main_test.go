package proxy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"porthole.dev/porthole/test/proxy/lab"
)

const bin = "../../bin"

var (
	upstreamToo = flag.Bool("upstream", false, "run the halves with upstream's kube-proxy.exe too")
	thorough    = flag.Bool("thorough", false, "full lengths and counts instead of those for every day")
	noise       = flag.Float64("noise", 0.1, "share of our proxy's HNS calls that fail besides")
)

// What all tests share: the lab, and pods on a Linux node, which are remote endpoints to every host.
var (
	world struct {
		*lab.Lab
		node *lab.Node
		far  []*lab.Pod
	}
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait more than they compute, so more of them run at a time than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("these tests make namespaces and mounts: run them as root")
	}
	ctx := context.Background()
	if world.Lab, err = lab.New(ctx, lab.Options{Bin: bin, Prefix: "proxy"}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	if world.node, err = world.AddNode(ctx, "lin1"); err != nil {
		return 1, err
	}
	for i := range 4 {
		p, err := world.node.Pod(ctx, fmt.Sprintf("far%d", i+1), netip.Addr{})
		if err != nil {
			return 1, err
		}
		if _, err := p.Serve(targetPort); err != nil { // ends with the test binary
			return 1, err
		}
		world.far = append(world.far, p)
	}
	return m.Run(), nil
}
