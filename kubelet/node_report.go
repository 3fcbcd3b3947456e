package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// reportTries is how often one report is tried before the next tick; after the first, from what the API has then.
const reportTries = 5

// reporter sends the node's status: at once when it has changed, else as a sign of life when one is due.
type reporter struct {
	k        *Kubelet
	period   time.Duration
	due      time.Time // carries the monotonic clock: a change of the wall clock moves nothing
	rebooted sync.Once
}

func (r *reporter) run(ctx context.Context) error {
	var err error
	for try := range reportTries {
		if try > 0 {
			n, gone := r.k.o.API.GetNode(ctx)
			if apierrors.IsNotFound(gone) { // somebody deleted the node: it still exists, so it registers again
				return r.k.registerOnce(ctx)
			}
			if gone != nil {
				return gone // the server is away; so is the answer to the next try
			}
			r.k.node.Store(n)
		}
		if err = r.once(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// once sends what differs from the API.
func (r *reporter) once(ctx context.Context) error {
	k, n, now := r.k, r.k.node.Load(), time.Now()
	want := n.DeepCopy()
	for _, label := range []string{v1.LabelOSStable, v1.LabelArchStable} { // pods are placed by these: nobody may change them
		if want.Labels == nil {
			want.Labels = map[string]string{}
		}
		want.Labels[label] = k.defaultLabels()[label]
	}
	want.Status = k.nodeStatus(n.Status, now)
	changed := !equality.Semantic.DeepEqual(withoutBeats(want.Status), withoutBeats(n.Status)) || !equality.Semantic.DeepEqual(want.Labels, n.Labels)
	if !changed && now.Before(r.due) {
		return nil
	}
	patch, err := nodePatch(n, want)
	if err != nil {
		return err
	}
	got, err := k.o.API.PatchNodeStatus(ctx, patch)
	if err != nil {
		return err
	}
	for _, reason := range transitions(n.Status.Conditions, want.Status.Conditions) {
		k.nodeEvent(reason)
	}
	if old := n.Status.NodeInfo.BootID; old != "" && old != k.o.Host.BootID {
		r.rebooted.Do(func() {
			k.o.API.NodeEvent(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", k.o.NodeName, k.o.Host.BootID))
		})
	}
	k.node.Store(got)
	r.due = now.Add(r.period)
	if changed { // the nodes of a cluster that changed together do not report together for ever
		r.due = now.Add(time.Duration((0.5 + rand.Float64()) * float64(r.period)))
	}
	return nil
}

// nodePatch is the strategic merge patch of the status and the labels. The list of addresses is replaced as a whole: its
// merge key is the type, of which a node of two families has two (upstream's PatchNodeStatus does the same, but hides
// whether the node was there).
func nodePatch(before, after *v1.Node) ([]byte, error) {
	addresses := after.Status.Addresses
	replace := len(before.Status.Addresses) > 0 && !equality.Semantic.DeepEqual(before.Status.Addresses, addresses)
	slim := func(n *v1.Node) ([]byte, error) {
		out := v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}, Status: n.Status}
		if replace {
			out.Status.Addresses = before.Status.Addresses
		}
		return json.Marshal(out)
	}
	old, err := slim(before)
	if err != nil {
		return nil, fmt.Errorf("encoding the node's old status: %w", err)
	}
	now, err := slim(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the node's new status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, now, v1.Node{})
	if err != nil || !replace {
		return patch, err
	}
	var doc map[string]any
	if err := json.Unmarshal(patch, &doc); err != nil {
		return nil, fmt.Errorf("reading the node's patch: %w", err)
	}
	status, _ := doc["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		doc["status"] = status
	}
	list := []any{}
	for _, a := range addresses {
		list = append(list, a)
	}
	status["addresses"] = append(list, map[string]string{"$patch": "replace"})
	return json.Marshal(doc)
}

func withoutBeats(s v1.NodeStatus) v1.NodeStatus {
	out := *s.DeepCopy()
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
		out.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return out
}
