package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/internal/winbuild"
)

// keptAnnotations are the prefixes of the annotations that Nodes keeps: those by which modes of the network tell each other what they
// need, and what the agent has told the kubelet and service proxies.
var keptAnnotations = []string{"flannel.alpha.coreos.com/", "porthole.dev/bgp-", nodeapi.NetworkBoot, nodeapi.ServiceProgrammer}

// Nodes watches all nodes of the cluster. It keeps their names, pod ranges, addresses, conditions and annotations of keptAnnotations
// only.
type Nodes struct {
	factory  informers.SharedInformerFactory
	informer cache.SharedIndexInformer
}

// NewNodes returns Nodes that do nothing before Run. changed is called from one goroutine, after each change of what is kept and when the
// first list is complete, with the node, or nil if one is gone. It must not block, and must not change the node.
func NewNodes(client kubernetes.Interface, changed func(*corev1.Node)) (*Nodes, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	n := &Nodes{factory: factory, informer: factory.Core().V1().Nodes().Informer()}
	if err := n.informer.SetTransform(trimNode); err != nil {
		return nil, fmt.Errorf("following nodes: %w", err)
	}
	_, err := n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(new any) { changed(nodeOf(new)) },
		UpdateFunc: func(old, new any) {
			if differs(old, new) {
				changed(nodeOf(new))
			}
		},
		DeleteFunc: func(any) { changed(nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("following nodes: %w", err)
	}
	return n, nil
}

// nodeOf returns the node that a handler was given, nil if it is something else.
func nodeOf(obj any) *corev1.Node {
	node, _ := obj.(*corev1.Node)
	return node
}

// trimNode drops the fields that Nodes does not keep. Most of a node's size is the list of its images.
func trimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		TypeMeta:   node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Annotations: trimAnnotations(node.Annotations)},
		Spec:       corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR, PodCIDRs: node.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: node.Status.Conditions},
	}, nil
}

// differs reports whether an update changed what is kept, the times of conditions aside: kubelets renew those though nothing has changed,
// in a large cluster many times a second.
func differs(old, new any) bool {
	a, ok := old.(*corev1.Node)
	b, ok2 := new.(*corev1.Node)
	if !ok || !ok2 {
		return true
	}
	same := func(c, d corev1.NodeCondition) bool {
		return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message
	}
	return a.UID != b.UID || a.Spec.PodCIDR != b.Spec.PodCIDR || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) ||
		!slices.Equal(a.Status.Addresses, b.Status.Addresses) || !maps.Equal(a.Annotations, b.Annotations) ||
		!slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, same)
}

func trimAnnotations(all map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range all {
		if !slices.ContainsFunc(keptAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}

// Run watches until ctx ends.
func (n *Nodes) Run(ctx context.Context) {
	n.factory.Start(ctx.Done())
	<-ctx.Done()
	n.factory.Shutdown()
}

// List returns the nodes as last seen, which must not be changed. ok is false until the first list is complete.
func (n *Nodes) List() (nodes []*corev1.Node, ok bool) {
	if !n.informer.HasSynced() {
		return nil, false
	}
	for _, obj := range n.informer.GetStore().List() {
		if node, is := obj.(*corev1.Node); is {
			nodes = append(nodes, node)
		}
	}
	return nodes, true
}

// SetNodeCondition writes one condition of a node and leaves the others as they are.
func SetNodeCondition(ctx context.Context, client kubernetes.Interface, node string, condition corev1.NodeCondition) error {
	now := metav1.Now()
	condition.LastHeartbeatTime = now
	if condition.LastTransitionTime.IsZero() {
		condition.LastTransitionTime = now
	}
	patch, err := conditionPatch(condition)
	if err != nil {
		return fmt.Errorf("setting condition %s of node %s: %w", condition.Type, node, err)
	}
	_, err = client.CoreV1().Nodes().PatchStatus(ctx, node, patch)
	if err != nil {
		return fmt.Errorf("setting condition %s of node %s: %w", condition.Type, node, err)
	}
	return nil
}

// AnnotateNode sets annotations of a node and leaves the others as they are. It writes them through the Node's status, because that is
// what flannel's and our own rights allow.
func AnnotateNode(ctx context.Context, client kubernetes.Interface, node string, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("annotating node %s: %w", node, err)
	}
	if _, err := client.CoreV1().Nodes().PatchStatus(ctx, node, patch); err != nil {
		return fmt.Errorf("annotating node %s: %w", node, err)
	}
	return nil
}

func conditionPatch(condition corev1.NodeCondition) ([]byte, error) {
	empty, err := json.Marshal(corev1.Node{})
	if err != nil {
		return nil, err
	}
	with, err := json.Marshal(corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition}}})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(empty, with, corev1.Node{})
}

// PodAnnotations returns the UID and the annotations of a pod, as the API server has them now.
func PodAnnotations(ctx context.Context, client kubernetes.Interface, namespace, name string) (uid string, annotations map[string]string, err error) {
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
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

// NewNodeEvents returns a recorder for events about node, with component as their source. Close it at the end. Repeated events are
// counted in one object, and their rate is limited.
func NewNodeEvents(ctx context.Context, client kubernetes.Interface, component, node string) *NodeEvents {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &NodeEvents{
		broadcaster: b,
		recorder:    b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component, Host: node}),
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

// WindowsHosts lists the cluster's Windows nodes and their versions, from the cache of the API server. A node that does not report its
// version has build 0.
func WindowsHosts(ctx context.Context, client kubernetes.Interface) (hosts []winbuild.Host, err error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelOSStable + "=windows", ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		n := &list.Items[i]
		version, _ := winbuild.ParseVersion(n.Status.NodeInfo.KernelVersion)
		hosts = append(hosts, winbuild.Host{Name: n.Name, Version: version, Architecture: n.Status.NodeInfo.Architecture})
	}
	return hosts, nil
}
