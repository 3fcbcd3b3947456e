package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/statefolder"
)

// benchCluster measures `porthole up` with everything cached, in a folder of its own, and then what a new service costs
// on a Windows node. There can be one local cluster on a machine: while another one runs, only the latter is measured,
// and only if --dir says that it is meant.
func benchCluster(ctx context.Context, o options) (err error) {
	if platform.NetnsExists(lab.Default.RouterNetns()) {
		why := "a local cluster runs already (`porthole down` ends it)"
		print(figure{Name: "up-warm", Unit: "s", Target: 60, Skipped: why})
		print(figure{Name: "up-warm-control-plane", Unit: "s", Target: 8, Skipped: why})
		if o.dir == "" {
			print(figure{Name: serviceFigure, Unit: "calls", Target: serviceTarget,
				Skipped: why + "; --dir FOLDER measures it there"})
			return nil
		}
		return benchService(ctx, o.dir)
	}

	dir, remove, err := clusterFolder(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	porthole := filepath.Join(o.bin, "porthole")

	cold, err := up(ctx, porthole, dir)
	if err != nil {
		return err
	}
	if err := down(ctx, porthole, dir); err != nil {
		return err
	}
	warm, err := up(ctx, porthole, dir)
	if err != nil {
		return err
	}

	print(figure{Name: "up-warm", Unit: "s", Ours: warm.total(), Target: 60, Steps: warm.lines,
		Note: "one Linux and two Windows nodes Ready, and the data path tested; images and the Wine template are cached"})
	print(figure{Name: "up-warm-control-plane", Unit: "s", Ours: round(warm.at("control plane") - warm.at("processes")),
		Target: 8,
		Note:   "from the start of the processes until the API server is ready"})
	print(figure{Name: "up-cold", Unit: "s", Ours: cold.total(), Steps: cold.lines,
		Note: "in an empty folder: makes the images and the Wine template first"})
	return benchService(ctx, dir)
}

// clusterFolder returns the state folder of a local cluster that the bench brings up, and what stops the cluster. It
// removes the folder unless --dir named it.
func clusterFolder(o options) (dir string, remove func() error, err error) {
	porthole := filepath.Join(o.bin, "porthole")
	if o.dir == "" {
		return statefolder.Make(porthole)
	}
	return o.dir, func() error { return down(context.Background(), porthole, o.dir, "--purge") }, nil
}

// down stops the cluster of a folder. It does so after an interrupt as well: a cluster that stayed
// would keep its network namespaces, whose names are fixed, and refuse the next run.
func down(ctx context.Context, porthole, dir string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, porthole, append([]string{"down", "--dir", dir}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("porthole down: %w: %s", err, out)
	}
	return nil
}

// steps are the lines of `porthole up` with their times in seconds.
type steps struct{ lines []step }

// step is one line of `porthole up`; At counts from the start of the command.
type step struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// total is the time of the last line. A call needs at least one line, which up makes sure of.
func (s steps) total() float64 { return s.lines[len(s.lines)-1].At }

// at is when a step was done; 0 when there is no such step.
func (s steps) at(what string) float64 {
	for _, l := range s.lines {
		if l.What == what {
			return l.At
		}
	}
	return 0
}

// stepLine is a line of `porthole up` that begins with a time, such as " 12.3s control plane".
var stepLine = regexp.MustCompile(`^\s*([0-9.]+)s\s+(.*)$`)

// up brings up a cluster; more are further arguments of `porthole up`.
func up(ctx context.Context, porthole, dir string, more ...string) (steps, error) {
	say("porthole up --dir %s %s", dir, strings.Join(more, " "))
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	api, err := freePort()
	if err != nil {
		return steps{}, err
	}
	registry, err := freePort()
	if err != nil {
		return steps{}, err
	}

	cmd := exec.CommandContext(ctx, porthole,
		append([]string{"up", "--dir", dir, "--api-port", api, "--registry-port", registry}, more...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return steps{}, err
	}
	if err := cmd.Start(); err != nil {
		return steps{}, fmt.Errorf("porthole up: %w", err)
	}

	s := readSteps(out)
	if err := cmd.Wait(); err != nil {
		return s, fmt.Errorf("porthole up: %w", err)
	}
	if len(s.lines) == 0 {
		return s, errors.New("porthole up printed no times")
	}

	return s, nil
}

// freePort is a TCP port of the machine's loopback that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// readSteps reads until the command closes its output. Lines without a time are left out.
func readSteps(r io.Reader) (s steps) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if m := stepLine.FindStringSubmatch(lines.Text()); m != nil {
			at, _ := strconv.ParseFloat(m[1], 64)
			s.lines = append(s.lines, step{At: at, What: m[2]})
			say("%s", lines.Text())
		}
	}
	return s
}
