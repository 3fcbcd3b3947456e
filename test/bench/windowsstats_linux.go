package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/testkit/wait"
)

const windowsCrowd = 100 // pods on one node

// windowsSummaries measures how fast a kubelet answers with the statistics of many pods. It asks as metrics-server and
// `kubectl get --raw` do, through the API server.
func windowsSummaries(ctx context.Context, s *windowsSide) error {
	r, err := s.windowsPods.start(ctx, windowsCrowd, nil)
	if err != nil {
		return err
	}
	s.add("crowd-ready", r.took)
	if err := pause(ctx, settling); err != nil {
		return err
	}
	// The first summaries may lack pods that have just started.
	err = wait.For(ctx, 2*time.Minute, "statistics of all pods", func(ctx context.Context) error {
		_, err := s.readSummary(ctx)
		return err
	})
	if err != nil {
		return err
	}

	for range statsReads {
		took, err := s.readSummary(ctx)
		if err != nil {
			return err
		}
		s.add("crowd-stats", took)
		if err := pause(ctx, statsPause); err != nil {
			return err
		}
	}
	_, err = s.end(ctx, r)
	return err
}

// readSummary returns how long the statistics took, in seconds. An answer without one of the pods is an error.
// The API server's own share is in the time.
func (s *windowsSide) readSummary(ctx context.Context) (float64, error) {
	began := time.Now()
	data, err := s.host.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + s.name + "/proxy/stats/summary").
		DoRaw(ctx)
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, err
	}
	var all statsapi.Summary
	if err := json.Unmarshal(data, &all); err != nil {
		return 0, err
	}
	if len(all.Pods) < windowsCrowd {
		return 0, fmt.Errorf("the summary has %d pods", len(all.Pods))
	}
	return took, nil
}
