package credential

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const evictPeriod = time.Second

// Drain marks the client's own node as unschedulable and evicts its pods, until none is left or ctx ends. Disruption
// budgets hold. Pods of DaemonSets and static pods stay. say is told what is waited for.
func (a *API) Drain(ctx context.Context, node string, say func(string)) error {
	if err := a.Patch(ctx, "/api/v1/nodes/"+node,
		map[string]any{"spec": map[string]any{"unschedulable": true}}); err != nil {
		return fmt.Errorf("cordoning node %s: %w", node, err)
	}
	for told := ""; ; {
		left, last, err := a.evict(ctx, node)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		if text := fmt.Sprintf("draining: %d pods are left (%s)", left, last); text != told {
			told = text
			say(text)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("draining node %s: %d pods are left (%s): %w", node, left, last, ctx.Err())
		case <-time.After(evictPeriod):
		}
	}
}

// evict asks for the eviction of each pod of a node. It returns how many are left, and one of them with what its
// eviction said.
func (a *API) evict(ctx context.Context, node string) (left int, last string, err error) {
	var pods v1.PodList
	if err := a.Do(ctx, http.MethodGet, "/api/v1/pods?fieldSelector="+url.QueryEscape("spec.nodeName="+node), nil,
		&pods); err != nil {
		return 0, "", fmt.Errorf("listing the pods of node %s: %w", node, err)
	}

	// Pods that a node of its own has, pods that have ended and those of DaemonSets do not count.
	// Neither a budget that forbids the eviction for now nor a pod that has gone ends the pass.
	for _, p := range pods.Items {
		owner := metav1.GetControllerOf(&p)
		static := p.Annotations[v1.MirrorPodAnnotationKey] != ""
		done := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
		if static || done || owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		left++
		last = p.Namespace + "/" + p.Name
		if p.DeletionTimestamp != nil {
			continue
		}
		eviction := policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}}
		err := a.Do(ctx, http.MethodPost, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", p.Namespace, p.Name),
			eviction, nil)
		if code := Code(err); err != nil && code != http.StatusTooManyRequests && code != http.StatusNotFound {
			return left, last, fmt.Errorf("evicting pod %s: %w", last, err)
		} else if err != nil {
			last += ": " + err.Error()
		}
	}
	return left, last, nil
}

// DeleteNode deletes a Node object. One that is gone is no error.
func (a *API) DeleteNode(ctx context.Context, name string) error {
	err := a.Do(ctx, http.MethodDelete, "/api/v1/nodes/"+name, nil, nil)
	if err != nil && Code(err) != http.StatusNotFound {
		return fmt.Errorf("deleting node %s: %w", name, err)
	}
	return nil
}
