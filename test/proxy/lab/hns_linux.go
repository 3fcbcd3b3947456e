package lab

import (
	"context"
	"time"

	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
)

// HNS is the emulated HNS of one host: its control interface, and the calls that programs of the host make.
type HNS struct {
	// Program is the file name under which our own calls are made, so that fault rules can exempt it.
	Program string

	netns, dir string
}

func newHNS(netns, hostDir string) *HNS {
	return &HNS{Program: "agent.exe", netns: netns, dir: hostDir}
}

// Control makes one call of the control interface; body and into are JSON values and may be nil.
func (h *HNS) Control(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	return control.Host(h.dir).Call(ctx, method, path, body, into)
}

// Dump returns all objects of HNS.
func (h *HNS) Dump(ctx context.Context) (d serve.Dump, err error) {
	err = h.Control(ctx, "GET", "/dump", nil, &d)
	return d, err
}

// Stats are the calls since the start or the last ResetStats.
func (h *HNS) Stats(ctx context.Context) (s serve.Stats, err error) {
	err = h.Control(ctx, "GET", "/stats", nil, &s)
	return s, err
}

// ResetStats sets all counters to zero.
func (h *HNS) ResetStats(ctx context.Context) error {
	return h.Control(ctx, "POST", "/stats/reset", object{}, nil)
}

// Faults replaces all fault rules; none ends every fault. A rule is a serve.Fault, or the same as a map.
func (h *HNS) Faults(ctx context.Context, rules ...any) error {
	return h.Control(ctx, "POST", "/faults", append([]any{}, rules...), nil)
}

// Hits is how often each of the present fault rules was used.
func (h *HNS) Hits(ctx context.Context) ([]int, error) {
	var rules []serve.Fault
	if err := h.Control(ctx, "GET", "/faults", nil, &rules); err != nil {
		return nil, err
	}
	var hits []int
	for _, r := range rules {
		hits = append(hits, r.Hits)
	}
	return hits, nil
}

// Lose makes HNS forget objects without a trace. Fields as in POST /lose: kind, count, percent, planeOnly.
func (h *HNS) Lose(ctx context.Context, what map[string]any) (lost int, err error) {
	var answer struct{ Lost int }
	err = h.Control(ctx, "POST", "/lose", what, &answer)
	return answer.Lost, err
}

// Verify lists where the kernel differs from HNS's state.
func (h *HNS) Verify(ctx context.Context) ([]string, error) {
	var v struct{ Drift []struct{ Text string } }
	if err := h.Control(ctx, "POST", "/verify", object{}, &v); err != nil {
		return nil, err
	}
	var list []string
	for _, d := range v.Drift {
		list = append(list, d.Text)
	}
	return list, nil
}
