package routes

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// publish sets the node's condition and writes events about routes that must not exist and other problems of the mode.
// The network counts as available once it is made and no route is refused for a reason that lies in this node. A
// conflict that appears later does not take that back, because pods that run here would gain nothing by it.
func (a *agent) publish(ctx context.Context, status keep.Status) error {
	refused := refusals(status)
	doubts := remarks(status)
	problems := slices.Concat(status.Problems, status.Refused)
	for _, event := range []struct {
		reason   string
		messages []string
	}{{"RouteRefused", refused}, {"RouteDoubtful", doubts}, {"NetworkProblem", problems}} {
		for _, message := range event.messages {
			if !slices.Contains(a.warned, message) {
				a.cluster.Warn(event.reason, message)
			}
		}
	}
	a.warned = slices.Concat(refused, doubts, problems)

	condition := conditionOf(status)
	if a.written == "" && a.isWritten(condition) {
		a.written = string(condition.Status) // by an earlier start of this program
	}
	if a.written == string(corev1.ConditionFalse) || a.written == string(condition.Status) {
		return nil
	}
	if err := a.cluster.SetCondition(ctx, condition); err != nil {
		return err
	}
	a.written = string(condition.Status)
	klog.FromContext(ctx).Info("Set the node's network condition", "unavailable", condition.Status, "reason",
		condition.Reason)
	return nil
}

// isWritten reports whether the node has the condition already.
func (a *agent) isWritten(condition corev1.NodeCondition) bool {
	n := a.cluster.Self()
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == condition.Type && c.Status == condition.Status && c.Reason == condition.Reason &&
			c.Message == condition.Message
	})
}

// conditionTime bounds how long the pod network waits for an API server that does not answer. A connection that nobody
// answers would take 30 s to fail.
const conditionTime = 2 * time.Second

// unavailable sets the node's condition once after a reboot, if the pod network is not right at once: until then the
// condition that an earlier boot left said that it is.
func (a *agent) unavailable(ctx context.Context, cause error) {
	if !a.stale || a.written != "" {
		return
	}
	condition := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue,
		Reason:  "NotMadeInThisBoot",
		Message: "the node has rebooted, and its pod network is not right yet: " + cause.Error()}
	ctx, cancel := context.WithTimeout(ctx, conditionTime)
	defer cancel()
	if err := a.cluster.SetCondition(ctx, condition); err != nil {
		// tried again with the next pass
		klog.FromContext(ctx).V(2).Info("The node's network condition is of an earlier boot", "err", err.Error())
		return
	}
	a.written = string(condition.Status)
}

// refusals returns the reasons of the routes that must not exist, each once.
func refusals(status keep.Status) []string {
	var reasons []string
	for _, r := range status.Routes {
		if r.State == string(table.Refused) && !slices.Contains(reasons, r.Reason) {
			reasons = append(reasons, r.Reason)
		}
	}
	return reasons
}

// remarks returns what is doubtful about routes that are there, each once: somebody else's route to the same
// destination, or a path that loses large packets.
func remarks(status keep.Status) []string {
	var reasons []string
	for _, r := range status.Routes {
		if r.State == string(table.Present) && r.Reason != "" && !slices.Contains(reasons, r.Reason) {
			reasons = append(reasons, r.Reason)
		}
	}
	return reasons
}

// conditionOf returns the condition that a status gives. A route that is refused because of what another node says of
// itself does not count: a single node could else keep pods away from all that come.
func conditionOf(status keep.Status) corev1.NodeCondition {
	refused := slices.Clone(status.Refused)
	for _, r := range status.Routes {
		if r.State == string(table.Refused) && !r.Untrue {
			refused = append(refused, r.Reason)
		}
	}

	c := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}
	switch {
	case len(refused) > 0:
		c.Reason, c.Message = "RouteRefused", refused[0]
	case !status.Known || status.Error != "":
		c.Reason, c.Message = "RoutesUnknown", status.Error
	default:
		c.Status, c.Reason = corev1.ConditionFalse, "RoutesReady"
		c.Message = "the pod network is made and the routes to the other nodes are kept"
	}
	return c
}
