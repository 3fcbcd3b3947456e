package nodestatus

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

	"porthole.dev/porthole/internal/retry"
)

// registerBackoff is the wait between two attempts to register.
var registerBackoff = retry.Backoff{First: 100 * time.Millisecond, Max: 7 * time.Second}

// Annotations and the taint of nodes, under the names that controllers and cloud providers read.
const (
	attachByController = "volumes.kubernetes.io/controller-managed-attach-detach"
	providedIP         = "alpha.kubernetes.io/provided-node-ip"
	uninitialized      = "node.cloudprovider.kubernetes.io/uninitialized"
)

// Register creates the node object, or updates an existing one. It tries until it succeeds or ctx ends.
func (n *Node) Register(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := n.registerOnce(ctx)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, "Registering the node failed", "node", n.o.Name)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(registerBackoff.Wait(failures)):
		}
	}
}

// registerOnce makes one attempt to create the node object, or to update the one that exists, and keeps what the API
// server answers. With NoRegister it only reads the object.
func (n *Node) registerOnce(ctx context.Context) error {
	if n.o.NoRegister {
		have, err := n.links.API.GetNode(ctx)
		if err != nil {
			return fmt.Errorf("reading node %s, which others register: %w", n.o.Name, err)
		}
		n.object.Store(have)
		return nil
	}

	n.measure(Measure.Joining)
	made, err := n.links.API.CreateNode(ctx, n.newObject())
	if err == nil {
		n.measure(Measure.Joined)
		n.object.Store(made)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating node %s: %w", n.o.Name, err)
	}

	// The labels and taints of the command line are for new nodes only: later the administrator owns them.
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"labels": defaultLabels(n.o), "annotations": annotations(n.o)}})
	if err != nil {
		return err
	}
	have, err := n.links.API.PatchNode(ctx, patch)
	if err != nil {
		return fmt.Errorf("updating the labels of node %s: %w", n.o.Name, err)
	}
	n.object.Store(have)
	return nil
}

// measure says how the start of the node goes on.
func (n *Node) measure(tell func(Measure)) {
	if n.links.Measure != nil {
		tell(n.links.Measure)
	}
}

// newObject returns the node object as it is before the API server knows it.
func (n *Node) newObject() *v1.Node {
	obj := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.o.Name, Labels: defaultLabels(n.o),
		Annotations: annotations(n.o)},
		Spec: v1.NodeSpec{Taints: slices.Clone(n.o.Taints), ProviderID: n.o.ProviderID}}
	maps.Copy(obj.Labels, n.o.Labels)
	if n.o.ExternalCloud {
		obj.Spec.Taints = append(obj.Spec.Taints,
			v1.Taint{Key: uninitialized, Value: "true", Effect: v1.TaintEffectNoSchedule})
	}
	obj.Status = n.status(v1.NodeStatus{}, time.Now())
	return obj
}

// defaultLabels returns the labels that every node has.
func defaultLabels(o Options) map[string]string {
	h := o.Host
	labels := map[string]string{v1.LabelHostname: o.Name, v1.LabelOSStable: h.OS, v1.LabelArchStable: h.Arch,
		"beta.kubernetes.io/os": h.OS, "beta.kubernetes.io/arch": h.Arch}
	if h.WindowsRelease != "" {
		labels[v1.LabelWindowsBuild] = h.WindowsRelease
	}
	return labels
}

func annotations(o Options) map[string]string {
	out := map[string]string{attachByController: "true"}
	if o.ExternalCloud && o.IPsGiven {
		out[providedIP] = strings.Join(o.IPs(), ",")
	}
	return out
}
