package networkapi

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestPods: the pods of one node are asked for; it is said why they are not known, and when they are, also if there
// are none.
func TestPods(t *testing.T) {
	client := fake.NewClientset()
	var refused atomic.Bool
	refused.Store(true)
	var asked atomic.Value
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		asked.Store(a.(clienttesting.ListAction).GetListRestrictions().Fields.String())
		if refused.Load() {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
		}
		return false, nil, nil
	})
	var changes atomic.Int64
	pods := NewPods(api(client), "win01", func() { changes.Add(1) })
	if _, err := pods.List(); !errors.Is(err, ErrPodsUnknown) {
		t.Errorf("before the first answer: %v", err)
	}

	watched := watching(client, "pods")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { pods.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()
	wait.True(t, 10*time.Second, "the refusal", func() bool {
		_, err := pods.List()
		return err != nil && strings.Contains(err.Error(), "pods is forbidden") && changes.Load() > 0
	})
	before := changes.Load()
	refused.Store(false)
	wait.True(t, 20*time.Second, "no pods", func() bool {
		list, err := pods.List()
		return err == nil && len(list) == 0 && changes.Load() > before
	})
	if got := asked.Load(); got != "spec.nodeName=win01" {
		t.Errorf("asked for pods with %v", got)
	}

	<-watched // the fake loses what happens between a list and the watch after it
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b",
		Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x", "other": "y"}},
		Spec: corev1.PodSpec{NodeName: "win01", HostNetwork: true, Containers: []corev1.Container{{Name: "c"}}}}
	if _, err := client.CoreV1().Pods("b").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var list []*corev1.Pod
	wait.True(t, 10*time.Second, "the pod", func() bool { list, _ = pods.List(); return len(list) == 1 })
	if p := list[0]; len(p.Annotations) != 1 || !p.Spec.HostNetwork || len(p.Spec.Containers) != 0 {
		t.Errorf("kept %+v", p)
	}
	if err := client.CoreV1().Pods("b").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.True(t, 10*time.Second, "the pod to be gone", func() bool { list, _ = pods.List(); return len(list) == 0 })
}

// TestPodsTellChanges: what is not kept of a pod is no change.
func TestPodsTellChanges(t *testing.T) {
	changes := 0
	store := podStore{NewPods(nil, "win01", func() { changes++ })}
	pod := func(phase corev1.PodPhase, address string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
			Status: corev1.PodStatus{Phase: phase, PodIP: address}}
	}
	for _, step := range []struct {
		name string
		do   func() error
		want int
	}{
		{"the first list", func() error { return store.Replace(nil, "") }, 1},
		{"a new pod", func() error { return store.Add(pod(corev1.PodPending, "")) }, 2},
		{"another phase", func() error { return store.Update(pod(corev1.PodRunning, "")) }, 3},
		{"an address", func() error { return store.Update(pod(corev1.PodRunning, "10.244.1.3")) }, 3},
		{"gone", func() error { return store.Delete(pod(corev1.PodRunning, "10.244.1.3")) }, 4},
	} {
		if err := step.do(); err != nil || changes != step.want {
			t.Errorf("%s: %d changes, %v; want %d", step.name, changes, err, step.want)
		}
	}
}
