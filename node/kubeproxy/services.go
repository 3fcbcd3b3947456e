package kubeproxy

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/serviceapi"
	"porthole.dev/porthole/proxy/service"
)

// services are what the API server says of services, for whichever mode serves them.
type services struct {
	tracker *service.Tracker
	feed    *serviceapi.ServiceFeed
	first   sync.Once
}

// watchServices starts watching and returns at once; it ends with ctx. around may put a sink of its own before the
// tracker; nil means none.
func watchServices(ctx context.Context, client *serviceapi.Client, node string, ranges service.SourceRanges,
	around func(*service.Tracker) serviceapi.ServiceSink) *services {
	s := &services{tracker: service.NewTracker(service.Node{Name: node})}
	s.tracker.SetOptions(service.Options{SourceRanges: ranges, Since: time.Now()})
	var sink serviceapi.ServiceSink = s.tracker
	if around != nil {
		sink = around(s.tracker)
	}
	s.feed = serviceapi.FeedServices(ctx, client, node, sink, func(n *corev1.Node) {
		s.tracker.SetNode(service.Node{Name: node, Zone: n.Labels[corev1.LabelTopologyZone]})
	})
	return s
}

// take gives the services that changed since the last call; complete is false until all objects have arrived once. Where
// they are many, what the first listing took (10,000 services at once) goes back to the system soon after.
func (s *services) take() (changed []service.State, complete bool) {
	if !s.feed.Synced() {
		return nil, false
	}
	changed = s.tracker.Take()
	s.first.Do(func() {
		if len(changed) >= manyServices {
			thrift(os.Getenv, leastPercent)
			go debug.FreeOSMemory()
		}
	})
	return changed, true
}
