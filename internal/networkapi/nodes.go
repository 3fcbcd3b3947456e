package networkapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/nodeapi"
)

// keptAnnotations are the prefixes of the annotations of nodes that Nodes hands out: those by which modes of the
// network tell each other what they need, and what the agent has told service proxies.
var keptAnnotations = []string{"flannel.alpha.coreos.com/", "porthole.dev/bgp-", "k8s.ovn.org/hybrid-overlay-",
	"k8s.ovn.org/node-subnets", nodeapi.ServiceProgrammer}

// ownAnnotation is kept of the own node only: the peers of other nodes are nobody else's business, and may be long.
const ownAnnotation = "porthole.dev/bgp-peers"

// NodesOptions say what Nodes keeps.
type NodesOptions[T any] struct {
	// Own is the name of the node whose annotations and conditions are kept too; empty: none.
	Own string
	// Keep returns what is kept of a node. Of the node's annotations it sees those of keptAnnotations. It must not
	// keep the node. Required.
	Keep func(*corev1.Node) T
	// Same reports whether nothing has changed for whoever reads the nodes. Required.
	Same func(a, b T) bool
	// Changed is called from one goroutine after each change of what is kept, with what is kept of the node now, or
	// nil if one is gone or all were listed. It must not block. Required.
	Changed func(*T)
}

// Nodes follows all nodes of the cluster, and keeps of each only what its reader needs: a Node object is ten to twenty
// kilobytes, most of them the list of its images.
type Nodes[T any] struct {
	o       NodesOptions[T]
	client  *Client
	strings map[string]string // of annotations, each once

	mu     sync.Mutex
	synced bool
	kept   []entry[T] // by name
	list   []T        // of kept; nil: to be made again
	own    *corev1.Node
}

// entry is what is kept of the node of that name.
type entry[T any] struct {
	name string
	kept T
}

// NewNodes returns Nodes that do nothing before Run.
func NewNodes[T any](client *Client, o NodesOptions[T]) *Nodes[T] {
	return &Nodes[T]{o: o, client: client, strings: map[string]string{}}
}

// Run watches until ctx ends.
func (n *Nodes[T]) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	lw := listWatch(func(*metav1.ListOptions) {}, n.client.Nodes)
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, n.client), &corev1.Node{},
		nodeStore[T]{n},
		cache.ReflectorOptions{Logger: &logger}).RunWithContext(ctx)
}

// List returns what is kept of the nodes, by name, as last seen. It must not be changed. ok is false until the first
// list is complete.
func (n *Nodes[T]) List() (nodes []T, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.synced {
		return nil, false
	}
	if n.list == nil {
		n.list = make([]T, 0, len(n.kept))
		for _, k := range n.kept {
			n.list = append(n.list, k.kept)
		}
	}
	return n.list, true
}

// Own returns the own node with its name, annotations and conditions; nil if the cluster does not have it, or not yet.
// It must not be changed.
func (n *Nodes[T]) Own() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.own
}

// trimmed is a node while a list is being received: only what is kept of it.
type trimmed[T any] struct {
	entry[T]
	own *corev1.Node // nil: another node
}

func (n *Nodes[T]) trim(node *corev1.Node) trimmed[T] {
	node.Annotations = n.trimAnnotations(node.Annotations)
	if node.Name != n.o.Own {
		delete(node.Annotations, ownAnnotation)
	}
	t := trimmed[T]{entry: entry[T]{node.Name, n.o.Keep(node)}}
	if node.Name == n.o.Own {
		t.own = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Annotations: node.Annotations},
			Status: corev1.NodeStatus{Conditions: node.Status.Conditions}}
	}
	return t
}

// manyStrings bounds how many strings of annotations are kept once. Keys and words like "vxlan" are few; others would
// only be looked up.
const manyStrings, longestString = 1000, 64

func (n *Nodes[T]) trimAnnotations(all map[string]string) map[string]string {
	once := func(s string) string {
		known, ok := n.strings[s]
		if !ok && len(n.strings) < manyStrings && len(s) <= longestString {
			n.strings[s], known = s, s
		}
		if known == "" {
			return s
		}
		return known
	}

	var kept map[string]string
	for key, value := range all {
		if !slices.ContainsFunc(keptAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		if len(value) <= len("host-gw") { // a word that many nodes have
			value = once(value)
		}
		kept[once(key)] = value
	}
	return kept
}

// put takes in a node and reports whether anything changed. The caller holds mu.
func (n *Nodes[T]) put(t trimmed[T]) bool {
	changed := false
	if t.own != nil {
		changed = n.own == nil || !sameOwn(n.own, t.own)
		n.own = t.own
	}
	i, known := n.find(t.name)
	switch {
	case !known:
		n.kept = slices.Insert(n.kept, i, t.entry)
	case n.o.Same(n.kept[i].kept, t.kept):
		return changed
	default:
		n.kept[i] = t.entry
	}
	n.list = nil
	return true
}

// find returns where a node of that name is, or would be.
func (n *Nodes[T]) find(name string) (i int, known bool) {
	return slices.BinarySearchFunc(n.kept, name,
		func(k entry[T], name string) int { return strings.Compare(k.name, name) })
}

// sameOwn compares the own node before and after, the times of its conditions aside, which kubelets renew though
// nothing has changed.
func sameOwn(a, b *corev1.Node) bool {
	same := func(c, d corev1.NodeCondition) bool {
		return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message
	}
	return maps.Equal(a.Annotations, b.Annotations) && slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, same)
}

// nodeStore is what the reflector writes to. It has one goroutine.
type nodeStore[T any] struct{ n *Nodes[T] }

var _ cache.TransformingStore = nodeStore[int]{}

// Transformer drops what is not kept while a list is still being received.
func (s nodeStore[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if node, ok := obj.(*corev1.Node); ok {
			return s.n.trim(node), nil
		}
		return obj, nil
	}
}

// of returns the node that the reflector gives: one of a list is trimmed already if the list came as a watch.
func (s nodeStore[T]) of(obj any) (trimmed[T], error) {
	switch o := obj.(type) {
	case trimmed[T]:
		return o, nil
	case *corev1.Node:
		return s.n.trim(o), nil
	}
	return trimmed[T]{}, fmt.Errorf("%T is no node", obj)
}

// Add takes in a new node.
func (s nodeStore[T]) Add(obj any) error { return s.Update(obj) }

// Update takes in a changed node.
func (s nodeStore[T]) Update(obj any) error {
	t, err := s.of(obj)
	if err != nil {
		return err
	}
	s.n.mu.Lock()
	changed := s.n.put(t)
	s.n.mu.Unlock()
	if changed {
		s.n.o.Changed(&t.kept)
	}
	return nil
}

// Delete removes a node.
func (s nodeStore[T]) Delete(obj any) error {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return err
	}
	s.n.mu.Lock()
	s.n.remove(name.Name)
	s.n.mu.Unlock()
	s.n.o.Changed(nil)
	return nil
}

func (n *Nodes[T]) remove(name string) {
	if i, known := n.find(name); known {
		n.kept = slices.Delete(n.kept, i, i+1)
		n.list = nil
	}
	if name == n.o.Own {
		n.own = nil
	}
}

// Replace takes in all nodes.
func (s nodeStore[T]) Replace(list []any, _ string) error {
	all := make([]entry[T], 0, len(list))
	own := (*corev1.Node)(nil)
	for _, obj := range list {
		t, err := s.of(obj)
		if err != nil {
			return err
		}
		all = append(all, t.entry)
		if t.own != nil {
			own = t.own
		}
	}
	slices.SortFunc(all, func(a, b entry[T]) int { return strings.Compare(a.name, b.name) })

	s.n.mu.Lock()
	s.n.kept = all
	s.n.list = nil
	s.n.own = own
	s.n.synced = true
	s.n.mu.Unlock()
	s.n.o.Changed(nil)
	return nil
}

// Resync does nothing: nothing is kept that could differ from itself.
func (s nodeStore[T]) Resync() error { return nil }
