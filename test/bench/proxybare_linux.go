package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/test/proxy/lab"
)

// floorRounds is how often ours and the floor are measured in turn where HNS adds no latency: each takes a few
// seconds, of which the machine changes a fifth from one to the next.
const floorRounds = 3

// besideFloor fills the host again, in turn with a program that makes the same objects and does nothing else
// (test/bench/bare): the floor where HNS adds no latency. Ours runs and has filled it once.
func (t *bench) besideFloor(ctx context.Context, r *startResult) error {
	bare, err := t.buildBare(ctx)
	if err != nil {
		return err
	}
	for {
		f, err := t.refill(ctx, bare)
		if err != nil {
			return fmt.Errorf("test/bench/bare: %w", err)
		}
		r.bare = append(r.bare, f.all)
		if len(r.bare) == floorRounds {
			say("%s: all after %v s, bare creates %v s", t.Name, r.fills, r.bare)
			return nil
		}
		if f, err = t.refill(ctx, t.run); err != nil {
			return err
		}
		r.fills = append(r.fills, f.all)
	}
}

// refill ends the program, deletes what it made, and fills the host with another one.
func (t *bench) refill(ctx context.Context, run func() error) (fill, error) {
	t.halt()
	d, err := t.HNS.Dump(ctx)
	if err == nil {
		err = t.clear(ctx, d.Endpoints, d.LoadBalancers)
	}
	if err != nil {
		return fill{}, fmt.Errorf("deleting what a program made: %w", err)
	}
	return t.fill(ctx, run)
}

// buildBare makes the program that only makes the objects that are there now, and gives what starts it.
func (t *bench) buildBare(ctx context.Context) (run func() error, err error) {
	d, err := t.HNS.Dump(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(t.Dir, "bare.jsonl")
	if err := writeBare(file, t.NetworkID, d.Endpoints, d.LoadBalancers); err != nil {
		return nil, err
	}
	program := filepath.Join(t.Dir, "bare.exe")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, "./test/bench/bare")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building test/bench/bare: %w: %s", err, out)
	}
	return func() (err error) {
		t.proxy, err = t.Run("bare", program, `Z:`+file)
		return err
	}, nil
}

// remoteFlag is what an endpoint has in its Flags that stands for something on another host.
// The value is that of hcsshim's EndpointFlagsRemoteEndpoint.
const remoteFlag = 1

func isRemote(endpoint hnsd.Doc) bool {
	flags, _ := endpoint["Flags"].(float64)
	return int(flags)&remoteFlag != 0
}

// clear deletes all load balancers, and then the remote endpoints.
// Load balancers hold references to their endpoints, so they go first. Endpoints of the host's own
// pods stay.
func (t *bench) clear(ctx context.Context, endpoints, balancers []hnsd.Doc) error {
	id := func(d hnsd.Doc) string { s, _ := d["ID"].(string); return s }
	err := each(len(balancers), func(i int) error { return t.HNS.Delete(ctx, lab.LoadBalancer, id(balancers[i])) })
	if err != nil {
		return err
	}
	return each(len(endpoints), func(i int) error {
		if !isRemote(endpoints[i]) {
			return nil
		}
		return t.HNS.Delete(ctx, lab.Endpoint, id(endpoints[i]))
	})
}

// writeBare writes the creates for test/bench/bare, one per line.
// What HNS shows of an object is what it accepts for making it, with its ID, so that load balancers
// find their endpoints again.
func writeBare(file, network string, endpoints, balancers []hnsd.Doc) error {
	var lines bytes.Buffer
	write := json.NewEncoder(&lines)
	for _, e := range endpoints {
		if !isRemote(e) {
			continue
		}
		if err := write.Encode(map[string]any{"network": network, "settings": e}); err != nil {
			return err
		}
	}
	for _, lb := range balancers {
		if err := write.Encode(map[string]any{"settings": lb}); err != nil {
			return err
		}
	}
	return os.WriteFile(file, lines.Bytes(), 0o644)
}
