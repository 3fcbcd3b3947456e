package networkapi

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// SetNodeCondition writes one condition of a node and leaves the others as they are.
func SetNodeCondition(ctx context.Context, client *Client, node string, condition corev1.NodeCondition) error {
	condition.LastHeartbeatTime = metav1.Now()
	if condition.LastTransitionTime.IsZero() {
		condition.LastTransitionTime = condition.LastHeartbeatTime
	}
	// A strategic merge patch: the server joins lists of conditions by their types.
	err := patchNodeStatus(ctx, client, node, map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return fmt.Errorf("setting condition %s of node %s: %w", condition.Type, node, err)
	}
	return nil
}

// AnnotateNode sets annotations of a node and leaves the others as they are. It writes them through the Node's status,
// because that is what flannel's and our own rights allow.
func AnnotateNode(ctx context.Context, client *Client, node string, annotations map[string]string) error {
	err := patchNodeStatus(ctx, client, node, map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("annotating node %s: %w", node, err)
	}
	return nil
}

func patchNodeStatus(ctx context.Context, client *Client, node string, change any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return client.PatchNodeStatus(ctx, node, patch)
}

// PodAnnotations returns the UID and the annotations of a pod, as the API server has them now.
func PodAnnotations(ctx context.Context, client *Client, namespace, name string) (uid string,
	annotations map[string]string, err error) {
	pod, err := client.Pod(ctx, namespace, name)
	if err != nil {
		return "", nil, fmt.Errorf("reading pod %s/%s: %w", namespace, name, err)
	}
	return string(pod.UID), pod.Annotations, nil
}

// NodeEvents records events about one node.
type NodeEvents struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	about       *corev1.ObjectReference
}

// NewNodeEvents returns a recorder for events about node, with component as their source. Close it at the end.
// Repeated events are counted in one object, and their rate is limited.
func NewNodeEvents(ctx context.Context, client *Client, component, node string) *NodeEvents {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(client.Events)
	return &NodeEvents{
		broadcaster: b,
		recorder:    b.NewRecorder(scheme, corev1.EventSource{Component: component, Host: node}),
		// `kubectl describe node` looks for events by the node's name in place of its uid, as the kubelet writes them.
		about: &corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
	}
}

// Warn records a warning. It does not block.
func (e *NodeEvents) Warn(reason, message string) {
	e.recorder.Event(e.about, corev1.EventTypeWarning, reason, message)
}

// Close stops recording.
func (e *NodeEvents) Close() { e.broadcaster.Shutdown() }
