package kubelet

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// TestRestartAllContainers: a container ends by a rule that restarts all. The others are killed without their preStop
// hooks, init containers run again, each container once more and not twice, also when the kubelet is killed meanwhile.
func TestRestartAllContainers(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) { restartAllContainers(t, killed, 3*time.Second) })
	}
	// The next container is being made when it ends, and must be made again.
	t.Run("at once", func(t *testing.T) { restartAllContainers(t, false, time.Millisecond) })
}

func restartAllContainers(t *testing.T, killed bool, runs time.Duration) {
	var mu sync.Mutex
	starts := map[string]int{}
	inBubble(t, func(b *fakeNode) {
		always := v1.ContainerRestartPolicyAlways
		p := aPod("pod", "fails-once")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		side := aContainer("side", "sleep")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []v1.Container{aContainer("init", "echo"), side}
		other := aContainer("other", "sleep")
		other.Lifecycle = &v1.Lifecycle{PreStop: sleepHook(20)}
		p.Spec.Containers = append(p.Spec.Containers, other)
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
			{Action: v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
					Values: []int32{42}}}}
		b.cluster.create(p)
		if killed {
			b.within(time.Minute, "the end of the container", func() error {
				if !strings.Contains(b.runtime.Dump(), "exited ns/pod app#0") {
					return errors.New("it runs")
				}
				return nil
			})
			b.restart()
		}

		began := time.Now()
		done := b.untilPod(time.Minute, "pod", "started again", func(p *v1.Pod) bool {
			for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
				for _, c := range list {
					if c.RestartCount != 1 || c.LastTerminationState.Terminated == nil ||
						c.Name != "init" && c.State.Running == nil {
						return false
					}
				}
			}
			return len(p.Status.ContainerStatuses) == 2
		})
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v: the hook was waited for", took)
		}
		time.Sleep(5 * time.Minute) // of the bubble

		for _, c := range done.Status.Conditions {
			if c.Type == v1.AllContainersRestarting && c.Status != v1.ConditionFalse {
				t.Errorf("condition %+v", c)
			}
		}
		mu.Lock()
		if len(starts) != 4 {
			t.Errorf("containers started: %v", starts)
		}
		for name, n := range starts {
			if n != 2 {
				t.Errorf("container %s was started %d times, want twice", name, n)
			}
		}
		mu.Unlock()
		b.removeAll("pod")
		b.nothingLeft()
	}, func(b *fakeNode) {
		b.runtime.Program = func(c *cri.ContainerConfig) runtimetest.Process {
			mu.Lock()
			defer mu.Unlock()
			starts[c.Metadata.Name]++
			if c.Metadata.Name == "app" && starts["app"] == 1 {
				return runtimetest.Process{Runs: runs, ExitCode: 42}
			}
			if c.Metadata.Name == "app" {
				return runtimetest.Process{Stops: time.Millisecond}
			}
			return runtimetest.TestProgram(c)
		}
	})
}
