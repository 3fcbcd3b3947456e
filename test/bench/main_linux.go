// Command bench measures ours beside peers and beside the bare calls below both, in one run, and prints one JSON line
// per figure. It needs root and what `make build` builds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// figure is one line of the output. Values are medians of the samples of the same name.
// Fields without a value are left out of the line, so that a reader can tell 0 from "was not
// measured" in all but Target and the ratios.
type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Ours, Peer and Floor are numbers; nil means that the side was not measured.
	Ours any `json:"ours,omitempty"`
	Peer any `json:"peer,omitempty"`
	// PeerIs says which program that is.
	PeerIs string `json:"peerIs,omitempty"`
	// Floor is the same work without any kubelet.
	Floor any `json:"floor,omitempty"`
	// Ratio and OfFloor are Ours divided by Peer and by Floor.
	Ratio   float64 `json:"ratioToPeer,omitempty"`
	OfFloor float64 `json:"ratioToFloor,omitempty"`
	// Target is what Ours must not exceed.
	Target float64 `json:"target,omitempty"`
	// OK is nil without a target.
	OK *bool `json:"ok,omitempty"`
	// Samples are keyed by side: ours, peer, floor, and the same with EachPod for single pods of a
	// batch.
	Samples map[string][]float64 `json:"samples,omitempty"`
	// P99 of the samples of the same name: the slowest of less than a hundred.
	P99 map[string]float64 `json:"p99,omitempty"`
	// Steps are the lines of `porthole up` with their times.
	Steps []step `json:"steps,omitempty"`
	// Calls count what was called while Ours was measured, by method.
	Calls map[string]int `json:"calls,omitempty"`
	// Programs say how a figure of memory is divided.
	Programs map[string]programUse `json:"programs,omitempty"`
	// PeerCalls are the peer's.
	PeerCalls map[string]int `json:"peerCalls,omitempty"`
	// Note says from when until when, and under which conditions.
	Note string `json:"note,omitempty"`
	// Skipped says why there is no value.
	Skipped string `json:"skipped,omitempty"`
}

// options are the flags. Fields that hold lists are separated by commas; named looks into them.
type options struct {
	bin, only, dir, logs, proxy  string
	routes, modes                string
	kubelet, porthole, profiles  string
	floorSeccomp                 string
	windows, runtime             string
	sides, latencies             string
	rounds, large, crowd, passes int
	nodes, pods, runtimeRounds   int
	scale                        float64
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of the built programs")
	flag.StringVar(&o.only, "only", "kubelet,cluster",
		"which groups to run: kubelet, windows, runtime, nodes, cluster, proxy, relay, routes")
	flag.StringVar(&o.proxy, "proxy", "start,crash,idle,churn,large", "parts of the group proxy")
	flag.StringVar(&o.latencies, "latencies", "none,ws2025,ws2022-updated,ws2019",
		"profiles of HNS's latency for the part start of the group proxy")
	flag.Float64Var(&o.scale, "scale", 1, "share of the services that the group proxy makes; for a quick look")
	flag.IntVar(&o.large, "large", largeServices, "services of the part large, with ten endpoints each")
	flag.StringVar(&o.dir, "dir", "", "state folder of the groups windows, nodes and cluster; a new one unless given")
	flag.StringVar(&o.logs, "logs", "", "folder to keep the logs of the groups kubelet and routes in")

	flag.IntVar(&o.rounds, "rounds", 9,
		"groups kubelet and windows: samples of one pod; a third as many of 10 pods at once, a quarter of 50 or 30")
	flag.IntVar(&o.passes, "passes", 3,
		"groups kubelet and windows: passes over all sides and parts, so that other work on the machine hits each side alike")
	flag.IntVar(&o.crowd, "crowd", 250, "group kubelet: pods of the part large")
	flag.StringVar(&o.kubelet, "kubelet", "start,ten,fifty,end,crash,config,idle,large,restart,evict,csi,edits",
		"parts of the group kubelet")
	flag.StringVar(&o.sides, "sides", strings.Join([]string{bare, ours, peer}, ","),
		"groups kubelet, windows and routes: who is measured")
	flag.StringVar(&o.windows, "windows", "start,ten,thirty,end,crash,idle,crowd", "parts of the group windows")
	flag.StringVar(&o.runtime, "runtime", "memory,calls", "parts of the group runtime")
	flag.IntVar(&o.runtimeRounds, "runtime-rounds", 12,
		"group runtime: pods of each runtime, with and without the kubelet")
	flag.StringVar(&o.floorSeccomp, "floor-seccomp", "",
		"group kubelet: absolute path of the seccomp profile of the floor's sandboxes; empty: the runtime's own, as with upstream")
	flag.StringVar(&o.profiles, "profiles", "",
		"group kubelet: folder to keep processor profiles in: of each part, side and program")
	flag.StringVar(&o.porthole, "porthole", "",
		"group kubelet: the program whose kubelet runs; empty means the one in --bin")
	flag.StringVar(&o.routes, "routes", "added,large,throughput,loss", "parts of the group routes")
	flag.StringVar(&o.modes, "modes", "host-gateway,vxlan,bgp", "modes of the group routes")
	flag.IntVar(&o.nodes, "nodes", 20, "group nodes: emulated Windows nodes")
	flag.IntVar(&o.pods, "pods", 5, "group nodes: pods on each")
	flag.StringVar(&kept.machine, "record", "", "what machine this is and what else it does, in words: adds the figures to "+records+", which docs/evidence/bench.md shows")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// named reports whether the list of a flag contains a name.
func named(list, name string) bool { return slices.Contains(strings.Split(list, ","), name) }

func run(ctx context.Context, o options) error {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	o.bin = bin
	groups := map[string]func(context.Context, options) error{"kubelet": benchKubelet, "cluster": benchCluster,
		"proxy": benchProxy, "relay": benchRelay, "windows": benchWindows, "runtime": benchRuntime, "nodes": benchNodes,
		"routes": benchRoutes}
	var errs []error
	// One group that fails does not stop the others: the figures of each stand alone.
	for _, name := range strings.Split(o.only, ",") {
		group := groups[name]
		if group == nil {
			return fmt.Errorf(
				"--only %s: known groups are kubelet, windows, runtime, nodes, cluster, proxy, relay and routes", name)
		}
		kept.group = name
		if err := group(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// print writes a figure to standard output, with OK if there is a target, and adds it to the
// records if --record is given.
func print(f figure) {
	if ours, ok := f.Ours.(float64); ok && f.Target > 0 {
		good := ours <= f.Target
		f.OK = &good
	}
	line, err := json.Marshal(f)
	if err != nil { // figures hold numbers and text
		panic(err)
	}
	fmt.Println(string(line))
	if err := kept.keep(f); err != nil {
		say("%v", err)
	}
}

// say tells a person how far it is; standard output is for the figures.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// median is 0 without samples.
func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return 0
	}
	if n := len(s); n%2 == 0 {
		return round((s[n/2-1] + s[n/2]) / 2)
	}
	return round(s[len(s)/2])
}

// percentile returns the smallest sample that is not exceeded by the given share of all samples.
func percentile(samples []float64, part float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, max(0, int(math.Ceil(part*float64(len(s))))-1))]
}

// round keeps milliseconds: more would only be noise.
func round(x float64) float64 { return float64(int64(x*1000+0.5)) / 1000 }
