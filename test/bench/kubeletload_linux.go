package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Lengths of the parts in which nothing is to happen.
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
	// The counters are read outside of the window in which processor time counts, because reading
	// them costs some itself.
	before, err := s.criCalls(ctx, client)
	if err != nil {
		return err
	}

	used, err := s.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, idleWindow); err != nil {
		return err
	}
	passed := time.Since(began).Seconds()

	ended, err := s.usage()
	if err != nil {
		return err
	}
	after, err := s.criCalls(ctx, client)
	if err != nil {
		return err
	}

	sum := s.calls.set("idle-calls", s.name, before, after)
	// Requests and calls of a kubelet cost the control plane and containerd time, which only the
	// sum shows.
	all := 0.0
	for _, who := range []string{"kubelet", "control-plane", "containerd"} {
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

// bareCrowds starts as many pods by the calls alone.
func bareCrowds(crowd int) func(context.Context, *side, int) error {
	return func(ctx context.Context, s *side, _ int) error {
		_, all, _, err := s.bareBatch(ctx, crowd, func() error { return nil })
		if err == nil {
			s.add("large-ready", all)
		}
		return err
	}
}

// crowd starts many pods at once and measures how long it takes, how fast the statistics are then, and the memory of
// the kubelet.
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
			err := wait.For(ctx, 2*time.Minute, "statistics of all pods", func(ctx context.Context) error {
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
	if err := idleCPU(ctx, s, "large-cpu"); err != nil {
		return err
	}
	_, err = b.end(ctx)

	return err
}

// idleCPU measures how much processor time the kubelet uses for each second in which no pod changes.
func idleCPU(ctx context.Context, s *side, key string) error {
	if err := pause(ctx, settling); err != nil {
		return err
	}
	before, began := s.kubelet.CPU(), time.Now()
	if err := pause(ctx, idleWindow); err != nil {
		return err
	}
	s.add(key, (s.kubelet.CPU()-before)/time.Since(began).Seconds())
	return nil
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

// profile takes processor profiles beside what is measured, if that is wanted: of our kubelet, of the control plane
// and of containerd, each in FOLDER/PART-SIDE-PROGRAM.pprof. The result waits for them.
func (s *side) profile(ctx context.Context, part string) (saved func() error) {
	if s.profiles == "" {
		return func() error { return nil }
	}
	client := s.httpClient()
	client.Timeout = 2 * profileTime
	path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileTime/time.Second)
	// Each program is asked over its own connection, all at the same time.
	sources := map[string]func() ([]byte, error){
		"control-plane": func() ([]byte, error) {
			return s.w.Client.Discovery().RESTClient().Get().RequestURI(path).DoRaw(ctx)
		},
		"containerd": func() ([]byte, error) { return get(ctx, client, "http://"+testkit.RuntimeProfiles+path) },
	}

	// Upstream's kubelet is not profiled.
	if s.name == ours {
		sources["kubelet"] = func() ([]byte, error) {
			return get(ctx, client, "https://"+net.JoinHostPort(testkit.NodeIP, kubeletPort)+path)
		}
	}

	// One slot for each source: nobody blocks if the caller never waits.
	done := make(chan error, len(sources))
	for program, read := range sources {
		go func() {
			data, err := read()
			if err == nil {
				err = os.WriteFile(filepath.Join(s.profiles,
					strings.Join([]string{part, s.name, program}, "-")+".pprof"), data, 0o644)
			}
			done <- err
		}()
	}

	return func() error {
		var errs []error
		for range sources {
			errs = append(errs, <-done)
		}
		return errors.Join(errs...)
	}
}

// residentMB is the memory that a process has in use, and the part of it that is no page of a file, in MB of 10^6
// bytes.
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

// httpClient is a client for servers of the World. It does not check their certificates.
// The dialer enters the World's network namespace for each connection; whatever else the process
// does stays outside.
func (s *side) httpClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				err = platform.InNetns(s.w.Netns(), func() error {
					conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
					return err
				})
				return conn, err
			}}}
}

// get returns the body of an answer with status 200. Other answers are errors that hold the body.
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

// readSummary returns how long the kubelet took for its statistics, in seconds, and how many pods are in them.
// Upstream's is asked for processors and memory only: the rest it refuses on a machine whose disk it cannot name.
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
	return countCalls(data, "grpc_server_started_total", func(labels map[string]string) string {
		if strings.HasPrefix(labels["grpc_service"], "runtime.v1.") {
			return labels["grpc_method"]
		}
		return ""
	})
}

// apiRequests is how many requests the API server has answered, by verb and resource. Watches count when they end.
func (s *side) apiRequests(ctx context.Context) (map[string]int, error) {
	data, err := s.w.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return countCalls(data, "apiserver_request_total", func(labels map[string]string) string {
		if labels["resource"] == "" {
			return ""
		}
		return strings.TrimSuffix(labels["verb"]+" "+labels["resource"]+"/"+labels["subresource"], "/")
	})
}

// label is one label of a sample in Prometheus' text format. The values that are read here hold no quotes.
var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// countCalls adds up the samples of a counter under the names that name gives them; those without a name do not count.
func countCalls(text []byte, counter string, name func(labels map[string]string) string) (map[string]int, error) {
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		sample, ok := strings.CutPrefix(strings.TrimSpace(line), counter+"{")
		if !ok {
			continue
		}
		labelText, valueText, _ := strings.Cut(sample, "} ")
		value, err := strconv.ParseFloat(valueText, 64)
		if err != nil {
			return nil, fmt.Errorf("reading metrics: %w", err)
		}

		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(labelText, -1) {
			labels[l[1]] = l[2]
		}
		if key := name(labels); key != "" {
			counts[key] += int(value)
		}
	}

	if len(counts) == 0 {
		return nil, fmt.Errorf("no %s in the metrics", counter)
	}
	return counts, nil
}
