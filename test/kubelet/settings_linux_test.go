package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// testProcessSettings: the settings of the kubelet's own process are seen from outside: by a client with other curves than the server's, in the
// profile of contention, in the log, and by the rate of events.
func testProcessSettings(t *testing.T, w *world) {
	w.kubelet.Stop()
	defer func() {
		w.kubelet.Stop()
		w.KubeletConfig, w.KubeletFlags = nil, nil
		w.startKubelet()
	}()
	w.KubeletFlags = []string{"--v=0"} // not given: the configuration counts
	w.KubeletConfig = map[string]any{"tlsCurvePreferences": []int{int(tls.X25519)}, "enableContentionProfiling": true, "logging": map[string]any{"verbosity": 4},
		"eventRecordQPS": 1, "eventBurst": 1}
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
	must(t, wait.For(w.ctx, 10*time.Second, "an answer to a client with the curve", func(context.Context) error { return get(tls.X25519) }))
	if err := get(tls.CurveP256); err == nil || !strings.Contains(err.Error(), "handshake failure") {
		t.Errorf("a client that knows another curve only: %v", err)
	}

	const pods = 5 // with at least three events each
	begin := time.Now()
	for i := range pods {
		w.create(t, newPod(fmt.Sprintf("rate-%d", i), "sleep"))
	}
	for i := range pods {
		w.until(t, 60*time.Second, fmt.Sprintf("rate-%d", i), ready)
	}
	list, err := w.Client.CoreV1().Events(namespace).List(w.ctx, metav1.ListOptions{})
	must(t, err)
	events := 0
	for _, e := range list.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, "rate-") {
			events++
		}
	}
	if most := 1 + int(time.Since(begin).Seconds()); events > most {
		t.Errorf("%d events, at most %d can have been sent by now with one each second", events, most)
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
