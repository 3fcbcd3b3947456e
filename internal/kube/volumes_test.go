package kube

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestObjectsFollowTheAPI(t *testing.T) {
	ctx := context.Background()
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"}, Data: map[string]string{"a": "1"}}
	client := fake.NewClientset(cm)
	o := NewObjects(client, "n")
	changed := make(chan struct{}, 10)
	release := o.Watch("ConfigMap", "ns", "cm", func() { changed <- struct{}{} })
	wait := func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(5 * time.Second):
			t.Fatalf("not told: %s", what)
		}
	}

	wait("first sight")
	if got, err := o.ConfigMap(ctx, "ns", "cm"); err != nil || got.Data["a"] != "1" {
		t.Fatalf("%v %v", got, err)
	}
	cm = cm.DeepCopy()
	cm.Data["a"] = "2"
	if _, err := client.CoreV1().ConfigMaps("ns").Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	wait("update")
	if got, err := o.ConfigMap(ctx, "ns", "cm"); err != nil || got.Data["a"] != "2" {
		t.Fatalf("%v %v", got, err)
	}
	if _, err := o.Secret(ctx, "ns", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("unwatched and absent: %v", err)
	}
	release()
	release()
	if w := o.open[objectKey{"ConfigMap", "ns", "cm"}]; w == nil || w.idle == nil {
		t.Error("the watch does not wait to be closed")
	}
}
