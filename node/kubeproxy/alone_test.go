package kubeproxy

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/nodeapi"
)

func TestRefuse(t *testing.T) {
	if err := refuse(""); err != nil {
		t.Errorf("no other programmer: %v", err)
	}
	err := refuse(nodeapi.OVNProgrammer)
	for _, want := range []string{"OVN load balancers of porthole routes --mode ovn program this cluster's services",
		"Do not start it", "kube-proxy --cleanup", "--mode"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestAlone: kube-proxy neither starts nor stays on a node whose services another program programs.
// Row 1.53.
func TestAlone(t *testing.T) {
	node := func(name, programmer string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{nodeapi.ServiceProgrammer: programmer}}}
	}
	for name, c := range map[string]struct {
		nodes  []*corev1.Node
		refuse bool
	}{
		"no Node yet":       {},
		"a free node":       {nodes: []*corev1.Node{node("win01", "")}},
		"another's node":    {nodes: []*corev1.Node{node("win01", ""), node("win02", nodeapi.OVNProgrammer)}},
		"a node of OVN":     {[]*corev1.Node{node("win01", nodeapi.OVNProgrammer)}, true},
		"one of a stranger": {[]*corev1.Node{node("win01", "eBPF programs")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			for _, n := range c.nodes {
				if err := client.Tracker().Add(n); err != nil {
					t.Fatal(err)
				}
			}
			p, ctx := bench(t, client)
			ctx, end := context.WithCancelCause(ctx)
			defer end(nil)
			err := p.alone(ctx, end)
			if (err != nil) != c.refuse {
				t.Fatalf("at the start: %v", err)
			}
			if c.refuse {
				return
			}

			// routes in the mode ovn starts later.
			late := node("win01", nodeapi.OVNProgrammer)
			if len(c.nodes) == 0 {
				_, err = client.CoreV1().Nodes().Create(ctx, late, metav1.CreateOptions{})
			} else {
				_, err = client.CoreV1().Nodes().Update(ctx, late, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("kube-proxy went on beside OVN")
			}
			if cause := context.Cause(ctx); !strings.Contains(cause.Error(), nodeapi.OVNProgrammer) {
				t.Errorf("it ended with %v", cause)
			}
		})
	}
}

// silent is an API server that does not answer.
type silent struct{}

func (silent) List(ctx context.Context, _ metav1.ListOptions) (*corev1.NodeList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAloneUnknown: while the API is silent, nothing is programmed.
func TestAloneUnknown(t *testing.T) {
	p, _ := bench(t, fake.NewClientset())
	var err error
	if p.node, err = networkapi.WatchOwnNode(t.Context(), &networkapi.Client{Nodes: silent{}, NoWatchLists: true},
		"win01"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := p.alone(ctx, func(err error) { t.Error(err) }); err != nil || ctx.Err() == nil {
		t.Errorf("kube-proxy went on before the node was known: %v", err)
	}
}
