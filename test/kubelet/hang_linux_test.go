package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// hangFor returns how long calls about the stuck pods hang at least: 5 s, or HANG in the environment.
func hangFor(t *testing.T) time.Duration {
	d := 5 * time.Second
	if text := os.Getenv("HANG"); text != "" {
		var err error
		d, err = time.ParseDuration(text)
		must(t, err)
	}
	return d
}

// TestHangingCalls: the runtime does not answer about two pods, one that runs and one that is to start. Others start
// and end as fast as before, and statistics are there. When the runtime answers again, nothing is left undone.
func TestHangingCalls(t *testing.T) {
	w := newWorld(t, setup{limit: 3*time.Minute + hangFor(t), proxied: true})
	w.create(t, newPod("stuck", "sleep"))
	stuck := w.until(t, 20*time.Second, "stuck", ready)
	before := w.batch(t, "before")

	began := time.Now()
	id := strings.TrimPrefix(stuck.Status.ContainerStatuses[0].ContainerID, "containerd://")
	hold := w.hang(stuck, id)
	w.create(t, newPod("held", "sleep"))
	w.remove(t, "stuck", nil)
	during := w.batch(t, "during")
	if t.Logf("ten pods: %v before, %v while calls hang", before, during); during > 2*before+2*time.Second {
		t.Errorf("ten pods took %v while calls hang, and %v before", during, before)
	}
	w.summary(t)
	<-time.After(time.Until(began.Add(hangFor(t)))) // the length of the fault
	if held := w.until(t, 20*time.Second, "held", inPhase(v1.PodPending)); ready(held) == nil {
		t.Error("the held pod started although no call about it was answered")
	}
	close(hold)
	w.until(t, 60*time.Second, "held", ready)
	w.gone(t, "stuck", 60*time.Second)
	w.remove(t, "held", nil)
	w.nothingLeft(t)
}

// hang delays calls that name the pod, its container, its sandbox, or the pod "held", until hold is closed.
func (w *world) hang(p *v1.Pod, container string) (hold chan struct{}) {
	hold = make(chan struct{})
	names := [][]byte{[]byte(p.UID), []byte(container), []byte("held")}
	if boxes, err := w.sandboxesOf(p); err == nil {
		for _, b := range boxes {
			names = append(names, []byte(b))
		}
	}
	w.proxy.Set(func(_ string, request []byte) <-chan struct{} {
		for _, n := range names {
			if bytes.Contains(request, n) {
				return hold
			}
		}
		return nil
	})
	return hold
}

// batch creates ten pods, deletes them when all are Ready, and returns how long both took.
func (w *world) batch(t *testing.T, name string) time.Duration {
	t.Helper()
	began := time.Now()
	for i := range 10 {
		w.create(t, newPod(fmt.Sprintf("%s-%d", name, i), "sleep"))
	}
	for i := range 10 {
		w.until(t, 60*time.Second, fmt.Sprintf("%s-%d", name, i), ready)
	}
	for i := range 10 {
		w.remove(t, fmt.Sprintf("%s-%d", name, i), nil)
	}
	for i := range 10 {
		w.gone(t, fmt.Sprintf("%s-%d", name, i), 60*time.Second)
	}
	return time.Since(began)
}

// summary asks the kubelet for its statistics, which must come within a second.
func (w *world) summary(t *testing.T) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				err = platform.InNetns(w.Netns(), func() error {
					conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
					return err
				})
				return conn, err
			}}}
	began := time.Now()
	resp, err := client.Get("https://" + net.JoinHostPort(testkit.NodeIP, "10250") + "/stats/summary")
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	took := time.Since(began)
	t.Logf("statistics took %v", took)
	if took > time.Second || resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"nodeName"`)) {
		t.Errorf("statistics took %v: %s %.200s", took, resp.Status, body)
	}
}

// testContainerdRestart: containerd is killed while five pods run and five start; the five go on in the same
// containers, and the others come up.
func testContainerdRestart(t *testing.T, w *world) {
	name := func(i int) string { return fmt.Sprintf("load-%d", i) }
	before := map[string]string{}
	for i := range 5 {
		w.create(t, newPod(name(i), "sleep"))
	}
	for i := range 5 {
		before[name(i)] = w.until(t, 60*time.Second, name(i), ready).Status.ContainerStatuses[0].ContainerID
	}

	for i := range 5 {
		w.create(t, newPod(name(5+i), "sleep"))
	}
	<-time.After(300 * time.Millisecond) // the moment of the fault, among sandboxes and containers
	must(t, w.RestartContainerd(w.ctx, true))
	for i := range 10 {
		c := w.until(t, 90*time.Second, name(i), ready).Status.ContainerStatuses[0]
		if was := before[name(i)]; was != "" && (was != c.ContainerID || c.RestartCount != 0) {
			t.Errorf("pod %s is in container %s with %d restarts, was in %s", name(i), c.ContainerID, c.RestartCount,
				was)
		}
	}
	must(t, w.Client.CoreV1().Pods(namespace).DeleteCollection(w.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}
