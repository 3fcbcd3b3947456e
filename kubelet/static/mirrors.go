package static

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/retry"
)

// mirrorRetry are the waits between tries to write mirrors.
var mirrorRetry = retry.Backoff{First: time.Second, Max: time.Minute}

// Mirrors writes the mirrors of static pods into the API, as the plan of a Set says.
type Mirrors struct {
	Pods *Set
	API  mirrorAPI
	// Node returns this node's object, nil as long as it is not known.
	Node func() *v1.Node
	// Made is told of a mirror that was just made.
	Made func(*v1.Pod)

	asked map[types.UID]bool // mirrors whose deletion was sent and not yet seen
}

// mirrorAPI creates and deletes pods; internal/kube implements it.
type mirrorAPI interface {
	CreatePod(ctx context.Context, p *v1.Pod) (*v1.Pod, error)
	// DeletePod removes a pod without a grace period if it still has that UID.
	DeletePod(ctx context.Context, namespace, name string, uid types.UID) error
}

// Run keeps the mirrors right until ctx ends. It begins when all sources have delivered, so that it removes none that
// is still wanted.
func (m *Mirrors) Run(ctx context.Context) {
	select {
	case <-m.Pods.Ready():
	case <-ctx.Done():
		return
	}
	loop.Loop{Pass: m.pass, Wake: m.Pods.Changed, Retry: mirrorRetry,
		Failed: func(ctx context.Context, err error, wait time.Duration) {
			klog.FromContext(ctx).Error(err, "Mirroring static pods failed", "retry", wait)
		}}.Run(ctx)
}

// pass carries out the plan once.
func (m *Mirrors) pass(ctx context.Context) error {
	create, remove := m.Pods.Plan()
	sent, failed := m.remove(ctx, remove)
	m.asked = sent
	for _, p := range create {
		failed = errors.Join(failed, m.create(ctx, p))
	}
	return failed
}

// remove deletes mirrors, but none whose deletion was asked for already. It returns those whose deletion was sent.
func (m *Mirrors) remove(ctx context.Context, list []*v1.Pod) (sent map[types.UID]bool,
	failed error) {
	sent = map[types.UID]bool{}
	for _, p := range list {
		if !m.asked[p.UID] {
			err := m.API.DeletePod(ctx, p.Namespace, p.Name, p.UID)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				failed = errors.Join(failed, fmt.Errorf("deleting the mirror of pod %s: %w", p.Name, err))
				continue
			}
		}
		sent[p.UID] = true
	}
	return sent, failed
}

// create makes the mirror of a static pod in the API. A mirror's owner is the node object, whose UID is known only
// after the node has registered; before that it returns an error, and the caller tries again.
func (m *Mirrors) create(ctx context.Context, p *v1.Pod) error {
	n := m.Node()
	if n == nil || n.UID == "" {
		return fmt.Errorf("creating the mirror of pod %s: the node has not registered", p.Name)
	}

	made, err := m.API.CreatePod(ctx, Mirror(p, n))
	if apierrors.IsAlreadyExists(err) { // once the watch has delivered it, Plan compares it with the static pod
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating the mirror of pod %s: %w", p.Name, err)
	}
	m.Made(made)
	return nil
}
