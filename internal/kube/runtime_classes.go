package kube

import (
	"context"
	"fmt"
	"sync"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runtimeClasses caches the classes of this node's pods for times when the API server is not available. The handler of
// a class never changes while the class exists.
type runtimeClasses struct {
	mu   sync.Mutex
	last map[string]*nodev1.RuntimeClass
}

// RuntimeClass reads a class by name. Few pods have one, so there is no watch. If the API server does not answer, the
// last answer is returned.
func (k *Kubelet) RuntimeClass(ctx context.Context, name string) (*nodev1.RuntimeClass, error) {
	class, err := k.client.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	k.classes.mu.Lock()
	defer k.classes.mu.Unlock()
	if k.classes.last == nil {
		k.classes.last = map[string]*nodev1.RuntimeClass{}
	}
	switch {
	case err == nil:
		k.classes.last[name] = class
		return class, nil
	case apierrors.IsNotFound(err):
		delete(k.classes.last, name)
		return nil, err
	}
	if old := k.classes.last[name]; old != nil {
		return old, nil
	}
	return nil, fmt.Errorf("reading RuntimeClass %s: %w", name, err)
}
