package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

const (
	settling    = 10 * time.Second // after the start of many pods
	idleWindow  = 45 * time.Second
	statsReads  = 24
	profileTime = 20 * time.Second
	statsPause  = 500 * time.Millisecond
	kubeletPort = "10250"
)

// idles measures what a kubelet does when nothing happens to the 50 pods that it runs.
func idles(ctx context.Context, s *side, _ int) error {
	b, err := s.start(ctx, 50, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	client := s.httpClient()
	before, err := s.criCalls(ctx, client)
	if err != nil {
		return err
	}
	used, began := s.usage(), time.Now()
	if err := pause(ctx, idleWindow); err != nil {
		return err
	}
	ended, passed := s.usage(), time.Since(began).Seconds()
	after, err := s.criCalls(ctx, client)
	if err != nil {
		return err
	}
	s.calls[s.name] = map[string]int{}
	sum, all := 0, 0.0
	for method, n := range after {
		if n -= before[method]; n > 0 {
			s.calls[s.name][method] = n
			sum += n
		}
	}
	for who := range ended {
		all += ended[who] - used[who]
	}
	s.add("idle-calls", float64(sum)/passed)
	s.add("idle-cpu", (ended["kubelet"]-used["kubelet"])/passed)
	s.add("idle-cpu-all", all/passed)
	rss, own, err := residentMB(s.kubelet)
	if err != nil {
		return err
	}
	s.add("idle-rss", rss)
	s.add("idle-rss-own", own)
	_, err = b.end(ctx)
	return err
}

// crowds runs many pods and reads statistics meanwhile.
func crowds(crowd int) func(context.Context, *side, int) error {
	return func(ctx context.Context, s *side, _ int) error { return s.crowd(ctx, crowd) }
}

func (s *side) crowd(ctx context.Context, crowd int) error {
	b, err := s.start(ctx, crowd, nil)
	if err != nil {
		return err
	}
	s.add("large-ready", b.all)
	client := s.httpClient()
	for i := range statsReads {
		took, pods, err := s.readSummary(ctx, client)
		if err != nil {
			return err
		}
		if i == 0 { // the first may come before the pods are in it
			err := testkit.Until(ctx, 2*time.Minute, "statistics of all pods", func(ctx context.Context) error {
				if took, pods, err = s.readSummary(ctx, client); err == nil && pods < crowd {
					err = fmt.Errorf("there are %d", pods)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		if pods < crowd {
			return fmt.Errorf("the summary has %d pods", pods)
		}
		s.add("large-stats", took)
		if err := pause(ctx, statsPause); err != nil {
			return err
		}
	}
	rss, _, err := residentMB(s.kubelet)
	if err != nil {
		return err
	}
	s.add("large-rss", rss)
	_, err = b.end(ctx)
	return err
}

// pause lets time pass in which something is measured.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// profile takes a processor profile of our kubelet, if that is wanted, beside what is measured. The result waits for it.
func (s *side) profile(ctx context.Context, part string) (saved func() error) {
	if s.profiles == "" || s.name != ours {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		client := s.httpClient()
		client.Timeout = 2 * profileTime
		data, err := get(ctx, client, fmt.Sprintf("https://%s/debug/pprof/profile?seconds=%d", net.JoinHostPort(testkit.NodeIP, kubeletPort), profileTime/time.Second))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.profiles, part+".pprof"), data, 0o644)
		}
		done <- err
	}()
	return func() error { return <-done }
}

// residentMB is the memory that a process has in use, and the part of it that is no page of a file, in MB of 10^6 bytes.
func residentMB(p *testkit.Process) (all, own float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			all = kib * 1024 / 1e6
		}
		if n, _ := fmt.Sscanf(line, "RssAnon: %f kB", &kib); n == 1 {
			own = kib * 1024 / 1e6
		}
	}
	if all == 0 || own == 0 {
		return 0, 0, fmt.Errorf("process %s says no VmRSS or RssAnon", p.Name)
	}
	return all, own, nil
}

// httpClient speaks to servers of the World, whose certificates it does not check.
func (s *side) httpClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = platform.InNetns(s.w.Netns(), func() error {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		}}}
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, data)
	}
	return data, err
}

// readSummary returns how long the kubelet took for its statistics, in seconds, and how many pods are in them. Upstream's is
// asked for processors and memory only: the rest it refuses on a machine whose disk it cannot name.
func (s *side) readSummary(ctx context.Context, client *http.Client) (float64, int, error) {
	url := "https://" + net.JoinHostPort(testkit.NodeIP, kubeletPort) + "/stats/summary"
	if s.name == peer {
		url += "?only_cpu_and_memory=true"
	}
	began := time.Now()
	data, err := get(ctx, client, url)
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, 0, err
	}
	var all statsapi.Summary
	if err := json.Unmarshal(data, &all); err != nil {
		return 0, 0, err
	}
	return took, len(all.Pods), nil
}

// criCalls is how often each call of the CRI has begun, as containerd counts it.
func (s *side) criCalls(ctx context.Context, client *http.Client) (map[string]int, error) {
	data, err := get(ctx, client, "http://"+testkit.RuntimeMetrics+"/v1/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(data)))
	if err != nil {
		return nil, fmt.Errorf("reading containerd's metrics: %w", err)
	}
	calls := map[string]int{}
	for _, m := range families["grpc_server_started_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if strings.HasPrefix(labels["grpc_service"], "runtime.v1.") {
			calls[labels["grpc_method"]] += int(m.GetCounter().GetValue())
		}
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("containerd counts no calls of the CRI")
	}
	return calls, nil
}
