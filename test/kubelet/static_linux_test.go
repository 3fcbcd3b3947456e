package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// Annotations of mirror pods; kubectl and admission plugins know these names.
const (
	hashAnnotation   = "kubernetes.io/config.hash"
	mirrorAnnotation = "kubernetes.io/config.mirror"
)

// manifest writes a static pod into the node's folder, or removes the file if p is nil.
func (w *world) manifest(t *testing.T, file string, p *v1.Pod) {
	t.Helper()
	path := filepath.Join(w.Manifests(node), file)
	if p == nil {
		must(t, os.Remove(path))
		return
	}
	p.APIVersion, p.Kind, p.Spec.NodeName = "v1", "Pod", ""
	data, err := json.Marshal(p)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

// runningAs waits for a mirror that is Ready and is none of those before it.
func runningAs(not ...string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		for _, n := range not {
			if string(p.UID) == n || p.Annotations[mirrorAnnotation] == n {
				return fmt.Errorf("it is still %s", n)
			}
		}
		return ready(p)
	}
}

// testStatic: a pod from a file runs and has a mirror. It goes on without the kubelet and without its mirror, changes
// with the file, and ends with it, also if the file was removed while no kubelet ran.
func testStatic(t *testing.T, w *world) {
	const name = "static-" + node
	w.manifest(t, "static.json", newPod("static", "sleep"))
	first := w.until(t, 20*time.Second, name, ready)
	id := first.Status.ContainerStatuses[0].ContainerID
	n, err := w.Client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
	must(t, err)
	hash := first.Annotations[hashAnnotation]
	owner := first.OwnerReferences
	if hash == "" || first.Annotations[mirrorAnnotation] != hash || len(owner) != 1 || owner[0].UID != n.UID ||
		first.Status.PodIP == "" {
		t.Fatalf("mirror: annotations %v, owners %v, address %q", first.Annotations, owner, first.Status.PodIP)
	}

	w.kubelet.Kill()
	w.startKubelet()
	again := w.until(t, 20*time.Second, name, ready)
	if again.UID != first.UID || again.Status.ContainerStatuses[0].ContainerID != id {
		t.Errorf("after a restart of the kubelet: mirror %s with %s, was %s with %s", again.UID,
			again.Status.ContainerStatuses[0].ContainerID, first.UID, id)
	}

	w.remove(t, name, nil)
	mirrored := w.until(t, 20*time.Second, name, runningAs(string(first.UID)))
	if c := mirrored.Status.ContainerStatuses[0]; c.ContainerID != id || c.RestartCount != 0 {
		t.Errorf("after its mirror was deleted the pod runs in %s with %d restarts, was %s", c.ContainerID,
			c.RestartCount, id)
	}

	// a file that cannot be read changes nothing and is reported
	path := filepath.Join(w.Manifests(node), "static.json")
	must(t, os.WriteFile(path, []byte("{broken"), 0o600))
	w.untilEvent(t, node, "FailedValidation")
	if p := w.until(t, time.Second, name, ready); p.UID != mirrored.UID ||
		p.Status.ContainerStatuses[0].ContainerID != id {
		t.Errorf("a broken file changed the pod: %s", statusText(p))
	}

	changed := newPod("static", "sleep")
	changed.Labels = map[string]string{"changed": "yes"}
	w.manifest(t, "static.json", changed)
	next := w.until(t, 20*time.Second, name, runningAs(hash))
	if c := next.Status.ContainerStatuses[0]; next.Labels["changed"] != "yes" || c.ContainerID == id {
		t.Errorf("after the file changed: labels %v, container %s", next.Labels, c.ContainerID)
	}

	w.kubelet.Kill()
	w.manifest(t, "static.json", nil)
	w.startKubelet()
	w.untilGone(t, name)
}

func (w *world) untilGone(t *testing.T, name string) {
	t.Helper()
	must(t, wait.For(w.ctx, 2*time.Minute, "the end of pod "+name, func(ctx context.Context) error {
		p, err := w.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is still there: " + statusText(p))
		}
		return err
	}))
}

// untilEvent waits for an event about an object with this name and returns its message.
func (w *world) untilEvent(t *testing.T, object, reason string) (message string) {
	t.Helper()
	must(t, wait.For(w.ctx, 20*time.Second, "event "+reason+" of "+object, func(ctx context.Context) error {
		list, err := w.Client.CoreV1().Events("").
			List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.name=" + object})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is none")
		}
		if err == nil {
			message = list.Items[len(list.Items)-1].Message
		}
		return err
	}))
	return message
}

// testAway: the node works while the API server is away. Containers that end are restarted, a kubelet that starts runs
// static pods, and no pod is ended as an orphan. Afterwards the API has the state of all pods. AWAY=5m sets the
// length.
func testAway(t *testing.T, w *world) {
	pause := 5 * time.Second
	if text := os.Getenv("AWAY"); text != "" {
		var err error
		pause, err = time.ParseDuration(text)
		must(t, err)
	}

	w.create(t, newPod("steady", "sleep"))
	w.create(t, newPod("crashes", "exit", "3"))
	steady := w.until(t, 20*time.Second, "steady", ready).Status.ContainerStatuses[0].ContainerID
	before := w.until(t, 20*time.Second, "crashes", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount == 0 {
			return errors.New("it has not restarted")
		}
		return nil
	})

	began := time.Now()
	w.Process("controlplane").Kill()
	w.manifest(t, "away.json", newPod("away", "sleep"))
	w.untilRunning(t, "away-"+node)
	w.kubelet.Kill()
	restarted, err := w.Start("kubelet-"+node, w.Program(), w.KubeletArgs(node)...)
	must(t, err)
	w.kubelet = restarted
	w.manifest(t, "later.json", newPod("later", "sleep"))
	w.untilRunning(t, "later-"+node)

	<-time.After(max(0, pause-time.Since(began))) // the length of the fault
	w.untilRunning(t, "steady")
	must(t, w.StartControlPlane())
	if p := w.until(t, 60*time.Second, "steady", ready); p.Status.ContainerStatuses[0].ContainerID != steady {
		t.Errorf("the container was replaced: %s, was %s", p.Status.ContainerStatuses[0].ContainerID, steady)
	}

	for _, name := range []string{"away-" + node, "later-" + node} {
		w.until(t, 60*time.Second, name, ready)
	}
	w.until(t, 60*time.Second, "crashes", func(p *v1.Pod) error {
		if p.Status.ContainerStatuses[0].RestartCount <= before.Status.ContainerStatuses[0].RestartCount {
			return errors.New("the API knows of no restart since")
		}
		return nil
	})
	must(t, wait.For(w.ctx, 60*time.Second, "the node to report", func(ctx context.Context) error {
		n, err := w.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && c.LastHeartbeatTime.After(began) {
				return nil
			}
		}
		return fmt.Errorf("conditions: %+v", n.Status.Conditions)
	}))

	w.manifest(t, "away.json", nil)
	w.manifest(t, "later.json", nil)
	w.remove(t, "steady", nil)
	w.remove(t, "crashes", nil)
	w.untilGone(t, "away-"+node)
	w.untilGone(t, "later-"+node)
}

// untilRunning waits for the pod's container in the runtime, not in the API.
func (w *world) untilRunning(t *testing.T, name string) {
	t.Helper()
	must(t, wait.For(w.ctx, 20*time.Second, "a container of pod "+name, func(ctx context.Context) error {
		list, err := w.Runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
			LabelSelector: map[string]string{"io.kubernetes.pod.name": name}}})
		if err == nil && len(list.Containers) == 0 {
			err = errors.New("none runs")
		}
		return err
	}))
}
