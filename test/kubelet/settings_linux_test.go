package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// testProcessSettings: the settings of the kubelet's own process are seen from outside: by a client with other curves
// than the server's, in the profile of contention, in the log, and by the rate of events.
func testProcessSettings(t *testing.T, w *world) {
	w.kubelet.Stop()
	defer func() {
		w.kubelet.Stop()
		w.KubeletConfig, w.KubeletFlags = nil, nil
		w.startKubelet()
	}()
	w.KubeletFlags = []string{"--v=0"} // not given: the configuration counts
	w.KubeletConfig = map[string]any{"tlsCurvePreferences": []int{int(tls.X25519)}, "enableContentionProfiling": true,
		"logging":        map[string]any{"verbosity": 4},
		"eventRecordQPS": 4, "eventBurst": 1}
	w.startKubelet()

	get := func(curve tls.CurveID) error {
		client := w.http()
		client.Transport.(*http.Transport).TLSClientConfig.CurvePreferences = []tls.CurveID{curve}
		resp, err := client.Get(kubeletURL + "healthz")
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	must(t, wait.For(w.ctx, 10*time.Second, "an answer to a client with the curve",
		func(context.Context) error { return get(tls.X25519) }))
	if err := get(tls.CurveP256); err == nil || !strings.Contains(err.Error(), "handshake failure") {
		t.Errorf("a client that knows another curve only: %v", err)
	}

	const pods = 6
	for i := range pods {
		w.create(t, newPod(fmt.Sprintf("rate-%d", i), "sleep"))
	}
	for i := range pods {
		w.until(t, 60*time.Second, fmt.Sprintf("rate-%d", i), ready)
	}
	var sent []time.Time
	must(t, wait.For(w.ctx, 30*time.Second, "the events of the pods",
		func(context.Context) (err error) { sent, err = eventTimes(w, "rate-", 3*pods); return err }))
	// Times are whole seconds, and the pods take less than one.
	if took := sent[len(sent)-1].Sub(sent[0]); took < (3*pods-1)/4*time.Second-time.Second {
		t.Errorf("%d events within %v, want 4 each second", len(sent), took)
	}

	for i := range pods {
		w.remove(t, fmt.Sprintf("rate-%d", i), nil)
		w.untilGone(t, fmt.Sprintf("rate-%d", i))
	}
	if profile := ask(t, w, "debug/pprof/block?debug=1"); !strings.Contains(profile, "\n#\t") {
		t.Errorf("the profile of contention has no stack:\n%s", profile)
	}
	must(t, wait.For(w.ctx, 10*time.Second, "the log to have lines of level 4", func(context.Context) error {
		log, err := os.ReadFile(w.Path("kubelet-" + node + ".log"))
		if err == nil && !strings.Contains(string(log), `"Tore down volumes"`) {
			err = fmt.Errorf("no line of it in %d bytes", len(log))
		}
		return err
	}))
}

// eventTimes returns when the API server got the events about pods with this prefix, in order; fewer than least are an
// error.
func eventTimes(w *world, prefix string, least int) (times []time.Time, err error) {
	list, err := w.Client.CoreV1().Events(namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range list.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, prefix) {
			times = append(times, e.CreationTimestamp.Time)
		}
	}
	if len(times) < least {
		return nil, fmt.Errorf("%d events of %d", len(times), least)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, nil
}
