package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/internal/testkit/winhost"
)

// judgeLimit bounds each pod: a dozen start at once.
const judgeLimit = 4 * time.Minute

// trial is a pod that both kubelets run. What they make of it must be the same.
type trial struct {
	name string
	spec func(*v1.PodSpec)
	// settled reports whether the pod is as it stays.
	settled func(*v1.Pod) bool
	// ask are commands of kubectl whose answers are compared; POD stands for the pod's name.
	ask [][]string
	// seen are words that the status or an answer must have, so that two kubelets that fail alike are not taken for
	// right.
	seen []string
}

// TestKubeletsAgree has upstream's kubelet.exe and ours run the same pods on the same host, one kubelet after the
// other, and compares statuses, logs, and what programs saw.
func TestKubeletsAgree(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes minutes: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	p := buildPrograms(t)
	p.buildKubelet(t)
	h := p.kubeletHost(t)
	makeSources(t, h)

	summaries := map[string]map[string]string{}
	for _, node := range []string{winhost.Upstream, winhost.Ours} {
		summaries[node] = judge(t, h, node)
	}
	for _, c := range trials() {
		t.Run(c.name, func(t *testing.T) {
			want, got := summaries[winhost.Upstream][c.name], summaries[winhost.Ours][c.name]
			if missing := c.missing(want); missing != "" {
				t.Logf("upstream's kubelet has no %q on this host, and is no judge:\n%s", missing, want)
			} else if got != want {
				t.Errorf("upstream's kubelet makes of it\n%s\nours\n%s", want, got)
			}
			if missing := c.missing(got); missing != "" {
				t.Errorf("ours has no %q:\n%s", missing, got)
			}
		})
	}
}

// missing returns the first of the words that a summary must have and has not.
func (c trial) missing(summary string) string {
	for _, words := range c.seen {
		if !strings.Contains(summary, words) {
			return words
		}
	}
	return ""
}

// judge runs all pods on a kubelet and returns what came of each.
func judge(t *testing.T, h *winhost.Host, node string) map[string]string {
	t.Helper()
	began := time.Now()
	k, err := h.StartKubelet(t.Context(), node)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.KubeletLog(node))
	}
	defer k.Kill()
	t.Logf("%s: Ready after %v", node, time.Since(began).Round(100*time.Millisecond))

	summaries := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, c := range trials() {
		all.Go(func() {
			summary, err := c.run(t.Context(), h, node)
			if err != nil {
				summary = fmt.Sprintf("%s, on %s: %v\n%s", c.name, node, err, summary)
			}
			mu.Lock()
			defer mu.Unlock()
			summaries[c.name] = summary
		})
	}
	all.Wait()
	t.Logf("%s: all pods were judged after %v", node, time.Since(began).Round(100*time.Millisecond))
	if t.Failed() {
		t.Log(h.KubeletLog(node))
	}
	return summaries
}

// run makes the pod, waits until it is as it stays, asks, and deletes it. It returns what came of it as text.
func (c trial) run(ctx context.Context, h *winhost.Host, node string) (string, error) {
	grace := int64(5)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: map[string]string{"kind": "trial"}},
		Spec: v1.PodSpec{
			NodeName: node, RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			Tolerations:                  []v1.Toleration{{Operator: v1.TolerationOpExists}},
			AutomountServiceAccountToken: new(bool), OS: &v1.PodOS{Name: v1.Windows},
			Containers: []v1.Container{{Name: "app", Image: testImage, Args: []string{"serve"}}}}}
	c.spec(&p.Spec)
	pods := h.Client.CoreV1().Pods("default")
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return "", err
	}

	var last *v1.Pod
	err := wait.For(ctx, judgeLimit, "the pod to settle", func(ctx context.Context) (err error) {
		got, err := pods.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if last = got; !c.settled(got) {
			return fmt.Errorf("status %s", summaryOf(got))
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	text := summaryOf(last)
	for _, args := range c.ask {
		text += "\n" + c.answer(ctx, h, args)
	}
	if err := pods.Delete(ctx, c.name, metav1.DeleteOptions{}); err != nil {
		return text, err
	}
	return text, wait.For(ctx, judgeLimit, "the pod to be gone", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, c.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// answer asks by kubectl. What took containerd.exe too long is asked again.
func (c trial) answer(ctx context.Context, h *winhost.Host, args []string) (text string) {
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "POD", c.name)
	}
	err := wait.For(ctx, judgeLimit, "an answer", func(ctx context.Context) error {
		out, err := h.Kubectl(ctx, args...)
		text = fmt.Sprintf("kubectl %v: %v\n%s", args, err, strings.ReplaceAll(out, "\r\n", "\n"))
		if strings.Contains(out, "deadline exceeded") {
			return errors.New(out)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return text
}

// anyID is an id that the runtime made.
var anyID = regexp.MustCompile(`[0-9a-f]{64}`)

// summaryOf is what must be the same of a pod's status: no times, no ids, no addresses.
func summaryOf(p *v1.Pod) string {
	s := p.Status
	doc := map[string]any{"phase": s.Phase, "reason": s.Reason, "message": s.Message, "qos": s.QOSClass,
		"addresses": len(s.PodIPs)}
	conditions := map[string]string{}
	for _, c := range s.Conditions {
		conditions[string(c.Type)] = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
	}
	doc["conditions"] = conditions
	for what, list := range map[string][]v1.ContainerStatus{"init": s.InitContainerStatuses,
		"containers": s.ContainerStatuses} {
		all := map[string]any{}
		for _, c := range list {
			all[c.Name] = containerSummary(c)
		}
		doc[what] = all
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil { // texts and numbers
		panic(err)
	}
	return anyID.ReplaceAllString(string(text), "ID")
}

func containerSummary(c v1.ContainerStatus) map[string]any {
	started := "unknown"
	if c.Started != nil {
		started = fmt.Sprint(*c.Started)
	}
	doc := map[string]any{"ready": c.Ready, "started": started, "restarts": c.RestartCount > 0,
		"state": stateSummary(c.State), "last": stateSummary(c.LastTerminationState),
		"image": c.Image}
	mounts := []string{}
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name+" "+m.MountPath)
	}
	doc["mounts"] = mounts
	return doc
}

func stateSummary(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("terminated %s %d %q", s.Terminated.Reason, s.Terminated.ExitCode, s.Terminated.Message)
	case s.Waiting != nil:
		return "waiting " + s.Waiting.Reason
	}
	return ""
}

// States that pods stay in.
func settledReady(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions,
		func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// settledEnd waits for the end of the sandbox too.
func settledEnd(p *v1.Pod) bool {
	sandbox := slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReadyToStartContainers && c.Status == v1.ConditionTrue
	})
	return !sandbox && (p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed)
}

// settledWaiting waits until the sandbox has an address and a container waits for that reason.
func settledWaiting(reason string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
		waits := func(c v1.ContainerStatus) bool { return c.State.Waiting != nil && c.State.Waiting.Reason == reason }
		return p.Status.PodIP != "" && slices.ContainsFunc(all, waits)
	}
}

// makeSources makes the ConfigMap and the Secret that pods read.
func makeSources(t *testing.T, h *winhost.Host) {
	t.Helper()
	core, data := h.Client.CoreV1(), map[string]string{"color": "green", "shape": "round"}
	if _, err := core.ConfigMaps("default").
		Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "things"}, Data: data},
			metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: maps.Clone(data)}
	if _, err := core.Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
