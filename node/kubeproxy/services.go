package kubeproxy

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/proxy/service"
)

// services follows services and endpoints in the API, for any mode.
type services struct {
	tracker *service.Tracker
	feed    *networkapi.ServiceFeed
	first   sync.Once
}

// watchServices starts to watch and returns at once. The watch ends with ctx. If around is not nil, it returns the
// sink that gets the objects in place of the tracker, and passes them on to it.
func watchServices(ctx context.Context, client *networkapi.Client, node string, ranges service.SourceRanges,
	around func(*service.Tracker) networkapi.ServiceSink) *services {
	s := &services{tracker: service.NewTracker(service.Node{Name: node})}
	s.tracker.SetOptions(service.Options{SourceRanges: ranges, Since: time.Now()})
	var sink networkapi.ServiceSink = s.tracker
	if around != nil {
		sink = around(s.tracker)
	}
	s.feed = networkapi.FeedServices(ctx, client, node, sink, func(n *corev1.Node) {
		s.tracker.SetNode(service.Node{Name: node, Zone: n.Labels[corev1.LabelTopologyZone]})
	})
	return s
}

// take returns the services that changed since the last call. complete is false until all objects have arrived once.
// If the first listing has many services, the memory that it needed is returned to the system afterwards.
func (s *services) take() (changed []service.State, complete bool) {
	if !s.feed.Synced() {
		return nil, false
	}
	changed = s.tracker.Take()
	s.first.Do(func() {
		if len(changed) >= manyServices {
			limitGarbage(os.Getenv, leastPercent)
			go debug.FreeOSMemory()
		}
	})
	return changed, true
}
