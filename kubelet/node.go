package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// defaultLabels are the labels that every node has.
func (k *Kubelet) defaultLabels() map[string]string {
	h := k.o.Host
	l := map[string]string{v1.LabelHostname: k.o.NodeName, v1.LabelOSStable: h.OS, v1.LabelArchStable: h.Arch,
		"beta.kubernetes.io/os": h.OS, "beta.kubernetes.io/arch": h.Arch}
	if h.WindowsRelease != "" {
		l[v1.LabelWindowsBuild] = h.WindowsRelease
	}
	return l
}

// Annotations and the taint of nodes, by the names of those who read them.
const (
	attachByController = "volumes.kubernetes.io/controller-managed-attach-detach"
	providedIP         = "alpha.kubernetes.io/provided-node-ip"
	uninitialized      = "node.cloudprovider.kubernetes.io/uninitialized"
)

func (k *Kubelet) annotations() map[string]string {
	out := map[string]string{attachByController: "true"}
	if k.o.ExternalCloud && k.o.NodeIPGiven {
		out[providedIP] = strings.Join(k.o.NodeIPs, ",")
	}
	return out
}

// register creates the node object, or brings an existing one up to date. It tries until ctx ends.
func (k *Kubelet) register(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 7*time.Second) {
		err := k.registerOnce(ctx)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, "Registering the node failed", "node", k.o.NodeName)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// newNode is the node object as it is before the API server knows it.
func (k *Kubelet) newNode() *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.o.NodeName, Labels: k.defaultLabels(), Annotations: k.annotations()},
		Spec: v1.NodeSpec{Taints: slices.Clone(k.o.Taints), ProviderID: k.o.ProviderID}}
	maps.Copy(n.Labels, k.o.Labels)
	if k.o.ExternalCloud {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: uninitialized, Value: "true", Effect: v1.TaintEffectNoSchedule})
	}
	n.Status = k.nodeStatus(v1.NodeStatus{}, time.Now())
	return n
}

func (k *Kubelet) registerOnce(ctx context.Context) error {
	if k.o.NoRegister {
		have, err := k.o.API.GetNode(ctx)
		if err != nil {
			return fmt.Errorf("reading node %s, which others register: %w", k.o.NodeName, err)
		}
		k.node.Store(have)
		return nil
	}
	made, err := k.o.API.CreateNode(ctx, k.newNode())
	if err == nil {
		k.node.Store(made)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating node %s: %w", k.o.NodeName, err)
	}
	// The labels and taints of the command line are for new nodes: later they are the administrator's.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": k.defaultLabels(), "annotations": k.annotations()}})
	if err != nil {
		return err
	}
	have, err := k.o.API.PatchNode(ctx, patch)
	if err != nil {
		return fmt.Errorf("updating the labels of node %s: %w", k.o.NodeName, err)
	}
	k.node.Store(have)
	return nil
}

// runNode keeps the node's status right: at once when something changes, and by the clock.
func (k *Kubelet) runNode(ctx context.Context) {
	cidr := ""
	k.o.API.WatchNode(ctx, func(n *v1.Node) {
		k.nodeSeen(n)
		if n.Spec.PodCIDR != "" && n.Spec.PodCIDR != cidr {
			cidr = n.Spec.PodCIDR
			k.running.Go(func() {
				if err := k.o.Runtime.SetPodCIDR(ctx, n.Spec.PodCIDR); err != nil {
					klog.FromContext(ctx).Error(err, "Passing on the pod CIDR failed")
				}
				k.checkRuntime(ctx)
			})
		}
	})
	status := time.NewTicker(k.o.StatusPeriod)
	defer status.Stop()
	report := reporter{k: k, period: k.o.ReportPeriod}
	for {
		if err := report.run(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Reporting the node's status failed")
		}
		select {
		case <-ctx.Done():
			return
		case <-status.C:
		case <-k.nodeChanged:
		}
	}
}

// watchRuntime asks the runtime how it is: often while something is missing, seldom when all is well.
func (k *Kubelet) watchRuntime(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		k.turned.Store(&now)
		h := k.health.Load()
		if !h.NetworkReady || !h.RuntimeReady || time.Since(asked) > 5*time.Second {
			asked = time.Now()
			k.checkRuntime(ctx)
		}
	}
}

// nodeSeen takes a version of the node from the API.
func (k *Kubelet) nodeSeen(n *v1.Node) {
	before := k.node.Swap(n)
	if before == nil || before.UID != n.UID || before.Spec.Unschedulable == n.Spec.Unschedulable {
		return
	}
	name := "NodeSchedulable"
	if n.Spec.Unschedulable {
		name = "NodeNotSchedulable"
	}
	k.nodeEvent(name)
}

func (k *Kubelet) nodeEvent(reason string) {
	k.o.API.NodeEvent(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", k.o.NodeName, reason))
}

// NodeAddresses are the addresses that the node has now.
func (k *Kubelet) NodeAddresses() []v1.NodeAddress {
	if n := k.node.Load(); n != nil {
		return n.Status.Addresses
	}
	return nil
}
