package nodestatus

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// reportTries is how often one report is tried before the next tick. Each try but the first reads the node again.
const reportTries = 5

// report sends the node's status: at once if it has changed, and as a sign of life when one is due.
func (n *Node) report(ctx context.Context) error {
	var err error
	for try := range reportTries {
		if try > 0 {
			obj, gone := n.links.API.GetNode(ctx)
			if apierrors.IsNotFound(gone) { // somebody deleted the object of a node that still exists
				return n.registerOnce(ctx)
			}
			if gone != nil {
				return gone // the server cannot be reached, so a second try would fail too
			}
			n.object.Store(obj)
		}
		if err = n.reportOnce(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// reportOnce sends what differs from the API.
func (n *Node) reportOnce(ctx context.Context) error {
	have, now := n.object.Load(), time.Now()
	want := n.wanted(have, now)
	changed := !equality.Semantic.DeepEqual(withoutBeats(want.Status), withoutBeats(have.Status)) ||
		!equality.Semantic.DeepEqual(want.Labels, have.Labels)
	if !changed && now.Before(n.due) {
		return nil
	}

	patch, err := nodePatch(have, want)
	if err != nil {
		return err
	}
	got, err := n.links.API.PatchNodeStatus(ctx, patch)
	if err != nil {
		return err
	}

	for _, reason := range transitions(have.Status.Conditions, want.Status.Conditions) {
		n.event(reason)
	}
	if old := have.Status.NodeInfo.BootID; old != "" && old != n.o.Host.BootID {
		n.rebooted.Do(func() {
			n.links.Event(v1.EventTypeWarning, "Rebooted",
				fmt.Sprintf("Node %s has been rebooted, boot id: %s", n.o.Name, n.o.Host.BootID))
		})
	}

	n.object.Store(got)
	if ready(got) {
		n.measure(Measure.Ready)
	}
	n.tellSeen(got)
	n.due = now.Add(n.o.ReportPeriod)
	if changed { // spread, so that nodes which changed together do not report together from then on
		n.due = now.Add(time.Duration((0.5 + rand.Float64()) * float64(n.o.ReportPeriod)))
	}
	return nil
}

// ready reports whether the API has the node as ready.
func ready(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// wanted returns the node as it should be, given the one that the API has.
func (n *Node) wanted(have *v1.Node, now time.Time) *v1.Node {
	want := have.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	// pods are placed by these: nobody may change them
	for _, label := range []string{v1.LabelOSStable, v1.LabelArchStable} {
		want.Labels[label] = defaultLabels(n.o)[label]
	}
	want.Status = n.status(have.Status, now)
	return want
}

// nodePatch returns the strategic merge patch of the status and the labels. The list of addresses is replaced as a
// whole, because its merge key is the address type, and a node with two address families has two addresses of one type.
// (Upstream's PatchNodeStatus does the same, but does not report whether the node exists.)
func nodePatch(before, after *v1.Node) ([]byte, error) {
	addresses := after.Status.Addresses
	replace := len(before.Status.Addresses) > 0 && !equality.Semantic.DeepEqual(before.Status.Addresses, addresses)
	reported := func(n *v1.Node) ([]byte, error) {
		out := v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}, Status: n.Status}
		if replace {
			out.Status.Addresses = before.Status.Addresses
		}
		return json.Marshal(out)
	}

	old, err := reported(before)
	if err != nil {
		return nil, fmt.Errorf("encoding the node's old status: %w", err)
	}
	now, err := reported(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the node's new status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, now, v1.Node{})
	if err != nil || !replace {
		return patch, err
	}

	// The patch names no addresses so far: before and after had the same ones.
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

// withoutBeats returns s without the times of its conditions, which change with every report.
func withoutBeats(s v1.NodeStatus) v1.NodeStatus {
	out := *s.DeepCopy()
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
		out.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return out
}
