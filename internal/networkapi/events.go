package networkapi

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/record"
)

// ServiceEvents writes events about services that are known by name only.
type ServiceEvents struct {
	client      *Client
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	queue       chan serviceEvent
	done        chan struct{}
	dropped     atomic.Int64
}

type serviceEvent struct {
	namespace, name, kind, reason, text string
}

const (
	// serviceEventQueue is how many events wait while the API server is away; further ones are dropped and counted.
	serviceEventQueue = 256
	lookupLimit       = 5 * time.Second
)

// NewServiceEvents starts writing events whose source is component on node. Writing ends with ctx; Close waits for
// that.
func NewServiceEvents(ctx context.Context, client *Client, component, node string) *ServiceEvents {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(client.Events)
	e := &ServiceEvents{client: client, broadcaster: b, queue: make(chan serviceEvent, serviceEventQueue),
		done:     make(chan struct{}),
		recorder: b.NewRecorder(scheme, corev1.EventSource{Component: component, Host: node})}
	go e.run(ctx)
	return e
}

// Event writes an event about a service (namespace/name). It does not block.
func (e *ServiceEvents) Event(service string, warning bool, reason, text string) {
	event := serviceEvent{kind: corev1.EventTypeNormal, reason: reason, text: text}
	if warning {
		event.kind = corev1.EventTypeWarning
	}
	event.namespace, event.name, _ = strings.Cut(service, "/")
	select {
	case e.queue <- event:
	default:
		e.dropped.Add(1)
	}
}

// Dropped counts the events that found the queue full.
func (e *ServiceEvents) Dropped() int64 { return e.dropped.Load() }

// Close stops recording, after the context of NewServiceEvents has ended.
func (e *ServiceEvents) Close() {
	<-e.done
	e.broadcaster.Shutdown()
}

func (e *ServiceEvents) run(ctx context.Context) {
	defer close(e.done)
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			about, exists := e.reference(ctx, event)
			if exists {
				e.recorder.Event(about, event.kind, event.reason, event.text)
			}
		}
	}
}

// reference looks up the service's uid, by which `kubectl describe service` finds events. It lists, because a service
// proxy may not get a single service (cluster role system:node-proxier). If the API server does not answer, the
// reference has no uid. exists is false if the service is known to be gone.
func (e *ServiceEvents) reference(ctx context.Context, event serviceEvent) (about *corev1.ObjectReference,
	exists bool) {
	about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: event.namespace, Name: event.name}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	list, err := e.client.Services(event.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", event.name).String()})
	if err != nil {
		return about, true
	}
	for i := range list.Items {
		if s := &list.Items[i]; s.Name == event.name {
			about.UID = s.UID
			return about, true
		}
	}
	return about, false
}
