package main

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"
)

// spenders are those whose processor time is told apart, with what they are.
var spenders = []struct{ key, what string }{
	{"kubelet", "the kubelet"},
	{"control-plane", "etcd, API server, controller-manager and scheduler, which are one process"},
	{"containerd", "containerd's own process"},
	{"helpers", "shims, runc and CNI plugins"},
	{"pods", "what is in the pods' cgroups: runc's last steps, the sandbox's process and the container's"},
	{"bench", "this program, which makes, watches and deletes the pods"},
}

// batchPart is a part that makes n pods at once.
type batchPart struct {
	id string
	n  int
	// calls says that requests and calls of the runtime are counted.
	calls bool
}

// costLines are the figures of what n pods cost, each per pod: until they are Ready, and in their whole life.
func (p batchPart) costLines() (lines []line) {
	if p.calls {
		lines = append(lines,
			line{key: p.id + "-requests", name: fmt.Sprintf("kubelet-api-requests-per-pod-%d-at-once", p.n),
				unit: "requests", target: ofPeer(0.5),
				note: "from making to end of a pod, whoever asked; calls are those of all rounds of one pass together"},
			line{key: p.id + "-cri-calls", name: fmt.Sprintf("kubelet-cri-calls-per-pod-%d-at-once", p.n),
				unit: "calls",
				note: "from making to end of a pod, with those of this program, which waits for the end of sandboxes"})
	}
	for _, who := range spenders {
		lines = append(lines,
			line{key: p.id + "-ready-cpu-" + who.key,
				name: fmt.Sprintf("kubelet-cpu-per-pod-%d-at-once-until-ready-%s", p.n, who.key), unit: "s",
				note: "processor time until all are Ready, by the number of pods: " + who.what},
			line{key: p.id + "-cpu-" + who.key, name: fmt.Sprintf("kubelet-cpu-per-pod-%d-at-once-%s", p.n, who.key),
				unit: "s",
				note: "processor time from making to end of a pod: " + who.what})
	}
	return lines
}

// recordPause is how long after a batch the kubelet still has to tell of it: it holds events back while pods start.
// Without the pause the requests for these events would be missing from the count.
const recordPause = 6 * time.Second

// counted does rounds of n pods and notes the processor time of one pod, and of many the requests and calls that they
// took. A round calls ready when all its pods are.
func (s *side) counted(ctx context.Context, part batchPart, rounds int, round func(ready func() error) error) error {
	client := s.httpClient()
	before, err := s.callsNow(ctx, client)
	if err != nil {
		return err
	}

	// Two spans are measured at once: until ready is called in each round, and over all rounds with
	// the end of the pods.
	first, err := s.usage()
	if err != nil {
		return err
	}

	began := first
	for range rounds {
		err := round(func() error {
			now, err := s.usage()
			s.spent(part.id+"-ready-cpu-", began, now, part.n)
			return err
		})
		if err != nil {
			return err
		}
		if began, err = s.usage(); err != nil {
			return err
		}
	}

	// Without counts there is no need to wait for late events: the processor time of one pod is
	// measured up to the end of the last round.
	if !part.calls {
		s.spent(part.id+"-cpu-", first, began, part.n*rounds)
		return nil
	}
	if s.kubelet != nil {
		if err := pause(ctx, recordPause); err != nil {
			return err
		}
	}

	last, err := s.usage()
	if err != nil {
		return err
	}
	s.spent(part.id+"-cpu-", first, last, part.n*rounds)

	after, err := s.callsNow(ctx, client)
	if err != nil {
		return err
	}
	pods := float64(part.n * rounds)
	requests := part.id + "-requests"
	runtime := part.id + "-cri-calls"
	s.add(requests, float64(s.calls.set(requests, s.name, before.requests, after.requests))/pods)
	s.add(runtime, float64(s.calls.set(runtime, s.name, before.runtime, after.runtime))/pods)
	return nil
}

// callCounts are the requests to the API server and the calls to the runtime so far, by kind.
// The keys of requests are verb and resource, those of runtime are methods of the CRI.
type callCounts struct{ requests, runtime map[string]int }

// callsNow reads the counters of API server and containerd. They count what everybody asked since
// their start, so that only differences say something.
func (s *side) callsNow(ctx context.Context, client *http.Client) (now callCounts, err error) {
	if now.requests, err = s.apiRequests(ctx); err != nil {
		return now, err
	}
	now.runtime, err = s.criCalls(ctx, client)
	return now, err
}

// spent notes what a pod cost between two looks.
func (s *side) spent(key string, before, after map[string]float64, pods int) {
	for who, used := range after {
		s.add(key+who, (used-before[who])/float64(pods))
	}
}

// usage of processor time so far, in seconds by spender.
func (s *side) usage() (map[string]float64, error) {
	runtime, pods, err := s.w.RuntimeCPU()
	if err != nil {
		return nil, err
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return nil, err
	}
	// The runtime's figure is of a cgroup with containerd and all that it started; what is not
	// containerd's own are the helpers. Without a kubelet there is no key for it.
	out := map[string]float64{"control-plane": s.w.Process("controlplane").CPU(),
		"containerd": s.w.Process("containerd").CPU(), "pods": pods,
		"bench": float64(self.Utime.Nano()+self.Stime.Nano()) / 1e9}
	out["helpers"] = runtime - out["containerd"]
	if s.kubelet != nil {
		out["kubelet"] = s.kubelet.CPU()
	}
	return out, nil
}
