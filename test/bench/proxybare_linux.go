package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/internal/proxylab"
)

// bare is the floor where HNS adds no latency: a program that makes the same objects and does nothing else (test/bench/bare),
// from its start until HNS has them all. The proxy on the host has ended; what it made is deleted first. Seconds.
func (t *bench) bare(ctx context.Context) (float64, error) {
	d, err := t.HNS.Dump(ctx)
	if err != nil {
		return 0, err
	}
	if err := t.clear(ctx, d.Endpoints, d.LoadBalancers); err != nil {
		return 0, fmt.Errorf("deleting what the proxy made: %w", err)
	}
	file := filepath.Join(t.Dir, "bare.jsonl")
	if err := writeBare(file, t.NetworkID, d.Endpoints, d.LoadBalancers); err != nil {
		return 0, err
	}
	program := filepath.Join(t.Dir, "bare.exe")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, "./test/bench/bare")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building test/bench/bare: %w: %s", err, out)
	}
	if err := t.HNS.ResetStats(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if t.proxy, err = t.Run("bare", program, `Z:`+file); err != nil {
		return 0, err
	}
	<-t.proxy.Done()
	took := round(time.Since(began).Seconds())
	if _, err := t.proxy.Ended(); err != nil {
		return 0, fmt.Errorf("test/bench/bare: %w: %s", err, t.proxy.LogTail(500))
	}
	if n, err := t.balancers(ctx); err != nil || n != len(d.LoadBalancers) {
		return 0, errors.Join(err, fmt.Errorf("test/bench/bare made %d load balancers of %d", n, len(d.LoadBalancers)))
	}
	return took, nil
}

// remoteFlag is what an endpoint has in its Flags that stands for something on another host.
const remoteFlag = 1

func isRemote(endpoint hnsd.Doc) bool {
	flags, _ := endpoint["Flags"].(float64)
	return int(flags)&remoteFlag != 0
}

// clear deletes all load balancers, and then the remote endpoints.
func (t *bench) clear(ctx context.Context, endpoints, balancers []hnsd.Doc) error {
	id := func(d hnsd.Doc) string { s, _ := d["ID"].(string); return s }
	err := each(len(balancers), func(i int) error { return t.HNS.Delete(ctx, proxylab.LoadBalancer, id(balancers[i])) })
	if err != nil {
		return err
	}
	return each(len(endpoints), func(i int) error {
		if !isRemote(endpoints[i]) {
			return nil
		}
		return t.HNS.Delete(ctx, proxylab.Endpoint, id(endpoints[i]))
	})
}

// writeBare writes the creates for test/bench/bare, one per line.
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
