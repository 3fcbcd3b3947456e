package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/static"
)

// mirrorRetry are the waits between tries to write mirrors.
var mirrorRetry = retry.Backoff{First: time.Second, Max: time.Minute}

// mirrors writes the mirrors of static pods into the API, as the plan of static.Set says.
type mirrors struct {
	pods *static.Set
	api  podAPI
	node func() *v1.Node
	made func(*v1.Pod) // takes a mirror that was just made
}

// run keeps the mirrors right until ctx ends. It begins when all sources have delivered, so that it removes none that
// is still wanted.
func (m *mirrors) run(ctx context.Context) {
	select {
	case <-m.pods.Ready():
	case <-ctx.Done():
		return
	}

	asked := map[types.UID]bool{} // mirrors whose deletion was sent and not yet seen
	failures := 0
	for {
		create, remove := m.pods.Plan()
		sent, failed := m.remove(ctx, remove, asked)
		asked = sent
		for _, p := range create {
			failed = errors.Join(failed, m.create(ctx, p))
		}

		var again <-chan time.Time
		if failed != nil && ctx.Err() == nil {
			failures++
			wait := mirrorRetry.Wait(failures)
			klog.FromContext(ctx).Error(failed, "Mirroring static pods failed", "retry", wait)
			again = time.After(wait)
		} else {
			failures = 0
		}

		select {
		case <-ctx.Done():
			return
		case <-m.pods.Changed:
		case <-again:
		}
	}
}

// remove deletes mirrors, but none whose deletion was asked for already. It returns those whose deletion was sent.
func (m *mirrors) remove(ctx context.Context, list []*v1.Pod, asked map[types.UID]bool) (sent map[types.UID]bool,
	failed error) {
	sent = map[types.UID]bool{}
	for _, p := range list {
		if !asked[p.UID] {
			err := m.api.DeletePod(ctx, p.Namespace, p.Name, p.UID)
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
func (m *mirrors) create(ctx context.Context, p *v1.Pod) error {
	n := m.node()
	if n == nil || n.UID == "" {
		return fmt.Errorf("creating the mirror of pod %s: the node has not registered", p.Name)
	}

	made, err := m.api.CreatePod(ctx, static.Mirror(p, n))
	if apierrors.IsAlreadyExists(err) { // once the watch has delivered it, Plan compares it with the static pod
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating the mirror of pod %s: %w", p.Name, err)
	}
	m.made(made)
	return nil
}
