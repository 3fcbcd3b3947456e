package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// long skips the test unless the environment has PORTHOLE_LAB=long. `make test` runs without it.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PORTHOLE_LAB") != "long" {
		t.Skip("takes long: PORTHOLE_LAB=long, or `make test-lab`")
	}
}

const (
	crowd     = 100
	crowdWait = 5 * time.Minute // for a hundred pods of one emulated node on two processors
	// statisticsWait is what row 1.86 allows for the statistics of a crowd.
	statisticsWait = time.Second
)

// TestCrowd: 100 pods run on a Windows node. In most cases the node's statistics, with processor time and memory of
// each of them, take at most a second longer than an answer of the API server that asks no kubelet; kubectl top shows
// each pod.
//
// Row 1.86.
func TestCrowd(t *testing.T) {
	long(t)
	const node = "win02"
	apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: crowd}
spec:
  replicas: %d
  selector: {matchLabels: {app: crowd}}
  template:
    metadata: {labels: {app: crowd}}
    spec:
      nodeName: %s
      terminationGracePeriodSeconds: 0
      containers: [{name: app, image: "porthole/testapp:1", args: [serve, --http, ":8080"]}]
`, crowd, node))
	kubectlFor(t, crowdWait, "rollout", "status", "deployment/crowd", "--timeout", crowdWait.String())

	wait.NoError(t, metricsWait, "statistics of every pod", func() error { return complete(statistics(t, node)) })
	var slow int
	const asked = 20
	for range asked {
		began := time.Now()
		kubectl(t, "get", "--raw", "/version")
		answered := time.Now()
		s := statistics(t, node)
		if time.Since(answered)-answered.Sub(began) > statisticsWait {
			slow++
		}
		if err := complete(s); err != nil {
			t.Error(err)
		}
	}

	if slow > asked/2 {
		t.Errorf("%d of %d answers took longer than %s", slow, asked, statisticsWait)
	}

	wait.NoError(t, metricsWait, "every pod in kubectl top", func() error {
		out, err := kubectlErr("top", "pods", "-l", "app=crowd", "--no-headers")
		if shown := strings.Count(out, "crowd-"); err == nil && shown != crowd {
			err = fmt.Errorf("%d of %d pods", shown, crowd)
		}
		return err
	})
}

// kubectlFor is kubectl for commands that wait for something.
func kubectlFor(t *testing.T, limit time.Duration, args ...string) {
	t.Helper()
	if _, err := command(limit+10*time.Second, porthole,
		append([]string{"kubectl", "--dir", dir}, args...)...); err != nil {
		t.Fatal(err)
	}
}

// statistics asks a node's kubelet, by way of the API server.
func statistics(t *testing.T, node string) (s stats.Summary) {
	t.Helper()
	if err := json.Unmarshal([]byte(kubectl(t, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/stats/summary")),
		&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// complete returns an error unless each pod of the crowd has figures.
func complete(s stats.Summary) error {
	full := 0
	for _, p := range s.Pods {
		if !strings.HasPrefix(p.PodRef.Name, "crowd-") || p.CPU == nil || p.CPU.UsageCoreNanoSeconds == nil ||
			*p.CPU.UsageCoreNanoSeconds == 0 {
			continue
		}
		if p.Memory != nil && p.Memory.WorkingSetBytes != nil && *p.Memory.WorkingSetBytes > 0 {
			full++
		}
	}
	if full != crowd {
		return fmt.Errorf("%d of %d pods have processor time and memory", full, crowd)
	}
	return nil
}

const (
	// reserve is the kubelet's default threshold for hard eviction on Windows: memory.available<500Mi.
	reserve = 500 << 20
	// evictionWait: the kubelet looks each 10 s, and a program takes some time to fill gigabytes.
	evictionWait = 2 * time.Minute
	// calmWait: the condition stays for 5 min after the pressure's end (evictionPressureTransitionPeriod).
	calmWait = 7 * time.Minute
)

// TestWindowsEviction: a Windows node's memory becomes scarce. The pod that takes more than it asked for is evicted,
// the other one stays, the node says so by condition and taint, and both go when memory is there again.
//
// Row 1.13.
func TestWindowsEviction(t *testing.T) {
	if os.Getenv("PORTHOLE_LAB_MEMORY") == "" {
		t.Skip("needs Windows nodes of little memory: make test-lab")
	}
	const node = "win01"
	windowsPod(t, "modest", "[hog, '50']", "  nodeName: "+node, "    resources: {requests: {memory: 200Mi}}")
	modest := waitPod(t, "modest", podWait, isReady)

	s := statistics(t, node)
	if s.Node.Memory == nil || s.Node.Memory.AvailableBytes == nil {
		t.Fatalf("the node's memory is not known: %+v", s.Node.Memory)
	}
	take := (int64(*s.Node.Memory.AvailableBytes) - reserve/2) >> 20
	windowsPod(t, "greedy", fmt.Sprintf("[hog, '%d']", take), "  nodeName: "+node, "")

	waitPod(t, "greedy", evictionWait, func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Evicted" ||
			!strings.Contains(p.Status.Message, "memory") {
			return fmt.Errorf("is not evicted: %s, %s, %q", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
	wait.NoError(t, podWait, "the node says that its memory is scarce", func() error { return pressure(t, node, true) })
	wait.NoError(t, calmWait, "the pressure's end", func() error { return pressure(t, node, false) })
	waitPod(t, "modest", podWait, func(p *v1.Pod) error {
		if p.UID != modest.UID || p.Status.ContainerStatuses[0].RestartCount != 0 {
			return fmt.Errorf("is another pod, or was restarted")
		}
		return isReady(p)
	})
}

// pressure returns an error unless the node's condition and taint say whether its memory is scarce.
func pressure(t *testing.T, node string, want bool) error {
	t.Helper()
	var n v1.Node
	object(t, &n, "node", node)
	condition, taint := false, false
	for _, c := range n.Status.Conditions {
		condition = condition || c.Type == v1.NodeMemoryPressure && c.Status == v1.ConditionTrue
	}
	for _, one := range n.Spec.Taints {
		taint = taint || one.Key == v1.TaintNodeMemoryPressure
	}
	if condition != want || taint != want {
		return fmt.Errorf("condition %t, taint %t, want %t", condition, taint, want)
	}
	return nil
}
