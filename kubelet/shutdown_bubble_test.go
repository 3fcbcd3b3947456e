package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// TestNodeShutdown: pods end in the order of their priority, each within the shorter of its own time and its
// priority's, and are failed for a reason that controllers know; nothing is admitted any more, and the node is not
// ready.
func TestNodeShutdown(t *testing.T) {
	periods := ShutdownPeriods(
		&v1beta1.KubeletConfiguration{ShutdownGracePeriod: metav1.Duration{Duration: 30 * time.Second},
			ShutdownGracePeriodCriticalPods: metav1.Duration{Duration: 10 * time.Second}})
	if ShutdownTime(periods) != 30*time.Second || len(periods) != 2 || periods[0].ShutdownGracePeriodSeconds != 20 {
		t.Fatalf("periods: %+v", periods)
	}
	inBubble(t, func(b *fakeNode) {
		critical := aPod("critical", "sleep", "1000")
		priority := int32(systemCritical)
		critical.Spec.Priority = &priority
		b.cluster.create(aPod("plain", "sleep", "1000"))
		b.cluster.create(critical)
		b.untilReady(time.Minute, "plain", "critical")

		done := make(chan time.Duration)
		start := time.Now()
		go func() {
			b.kubelet.ShutDown(b.t.Context(), periods)
			done <- time.Since(start)
		}()
		plain := b.untilPod(time.Minute, "plain", "failed", phase(v1.PodFailed))
		if took := <-done; took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		if noted, err := readShutdown(b.kubelet.o.RootDir); err != nil || noted.StartTime.Before(start) ||
			noted.EndTime.Before(noted.StartTime) || noted.EndTime.After(time.Now()) {
			t.Errorf("the shutdown that began at %v is written down as %+v, %v", start, noted, err)
		}
		last := b.untilPod(time.Minute, "critical", "failed", phase(v1.PodFailed))
		for _, p := range []*v1.Pod{plain, last} {
			if p.Status.Reason != "Terminated" ||
				p.Status.Message != "Pod was terminated in response to imminent node shutdown." || !disrupted(p) {
				t.Errorf("%s: %+v", p.Name, p.Status)
			}
		}
		if first, second := endOf(plain), endOf(last); second.Before(first) {
			t.Errorf("the critical pod ended at %v, the plain one at %v", second, first)
		}

		b.cluster.create(aPod("late", "sleep", "1000"))
		late := b.untilPod(time.Minute, "late", "rejected", phase(v1.PodFailed))
		if late.Status.Reason != "NodeShutdown" {
			t.Errorf("a pod that comes late: %+v", late.Status)
		}
		b.within(time.Minute, "the node to be not ready", func() error {
			for _, c := range b.kubelet.node.Object().Status.Conditions {
				if c.Type == v1.NodeReady && c.Status == v1.ConditionFalse && c.Message == "node is shutting down" {
					return nil
				}
			}
			return errors.New("it is ready")
		})

		b.kubelet.CancelShutdown() // the machine goes on
		b.cluster.create(aPod("after", "sleep", "1000"))
		b.untilReady(time.Minute, "after")
		b.removeAll("plain", "critical", "late", "after")
	})
}

// TestNodeShutdownReports: a pod that ends only when it is killed, at the end of its time, is reported before the
// shutdown goes on.
func TestNodeShutdownReports(t *testing.T) {
	periods := []v1beta1.ShutdownGracePeriodByPodPriority{{ShutdownGracePeriodSeconds: 10}}
	inBubble(t, func(b *fakeNode) {
		stubborn := aPod("stubborn", "sleep", "1000")
		grace := int64(10)
		stubborn.Spec.TerminationGracePeriodSeconds = &grace
		b.cluster.create(stubborn)
		b.untilReady(time.Minute, "stubborn")

		start := time.Now()
		b.kubelet.ShutDown(b.t.Context(), periods)
		if took := time.Since(start); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("took %v, want the 10 s of the pod and the time of a report", took)
		}
		if got := b.cluster.get("stubborn").Status; got.Phase != v1.PodFailed || got.Reason != "Terminated" {
			t.Errorf("when the shutdown goes on, the pod is %s %s", got.Phase, got.Reason)
		}
		b.removeAll("stubborn")
	}, func(b *fakeNode) {
		b.runtime.Program = func(*cri.ContainerConfig) runtimetest.Process {
			return runtimetest.Process{IgnoresStop: true}
		}
	})
}

// TestNodeShutdownWaitsForReports: the shutdown waits until the API server has heard of a pod that has ended, for
// lastReports at most.
func TestNodeShutdownWaitsForReports(t *testing.T) {
	periods := []v1beta1.ShutdownGracePeriodByPodPriority{{ShutdownGracePeriodSeconds: 10}}
	for _, c := range []struct {
		away, most time.Duration
		phase      v1.PodPhase // as the API server has it when the shutdown goes on
	}{
		{away: 2 * time.Second, most: lastReports, phase: v1.PodFailed},
		{away: time.Hour, most: lastReports + 2*time.Second, phase: v1.PodRunning},
	} {
		inBubble(t, func(b *fakeNode) {
			b.cluster.create(aPod("plain", "sleep", "1000"))
			b.untilReady(time.Minute, "plain")

			start := time.Now()
			b.cluster.setFault(func(verb string) error {
				if verb == "patch pod" && time.Since(start) < c.away {
					return errAway
				}
				return nil
			})
			b.kubelet.ShutDown(b.t.Context(), periods)
			if took := time.Since(start); took < min(c.away, lastReports) || took > c.most {
				t.Errorf("the API server is away for %v: took %v", c.away, took)
			}
			if got := b.cluster.get("plain").Status.Phase; got != c.phase {
				t.Errorf("the API server is away for %v: when the shutdown goes on, the pod is %s there", c.away, got)
			}
			b.cluster.setFault(nil)
			b.removeAll("plain")
		})
	}
}

func disrupted(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
			c.Reason == v1.PodReasonTerminationByKubelet {
			return true
		}
	}
	return false
}

func endOf(p *v1.Pod) time.Time {
	return p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time
}

// TestShutdownFile: the file is the one that upstream's kubelet writes, and one that is broken is an error.
func TestShutdownFile(t *testing.T) {
	root := t.TempDir()
	if s, err := readShutdown(root); err != nil || !s.StartTime.IsZero() {
		t.Errorf("no file: %+v, %v", s, err)
	}
	began := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	if err := writeShutdown(root, shutdownTimes{StartTime: began}); err != nil {
		t.Fatal(err)
	}
	// what json.Marshal makes of the type state of pkg/kubelet/nodeshutdown/storage.go, 1.36.3
	path := filepath.Join(root, "graceful_node_shutdown_state")
	if text, _ := os.ReadFile(path); string(
		text) != `{"startTime":"2026-05-04T03:02:01Z","endTime":"0001-01-01T00:00:00Z"}` {
		t.Errorf("the file is %s", text)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readShutdown(root); err == nil {
		t.Error("a broken file was read")
	}
}
