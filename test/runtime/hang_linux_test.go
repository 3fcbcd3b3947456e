package runtime

import (
	"context"
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// normal is how long a call about a pod may take while those about another pod hang: such a call takes less than a
// second on a quiet machine.
const normal = 15 * time.Second

// testOneHangs has every call of HCS about one pod hang, then fail. The calls about another pod take their normal
// time. Afterwards both pods can be removed without a trace.
func (w faultCases) testOneHangs(t *testing.T) {
	for _, name := range []string{"hangs", "goes-on", "new"} {
		w.write("var/log/pods/"+name+"/.keep", "")
	}
	a, b := w.runPod(t, "hangs"), w.runPod(t, "goes-on")
	stuck := w.run(t, a, asked{name: "a"}, "serving HTTP")
	id := w.run(t, b, asked{name: "b"}, "serving HTTP")

	for _, action := range []string{`"action":"hang"`, `"action":"fail","code":2147942405`} { // access denied
		w.setRules(t, "hcsd", fmt.Sprintf(`[{"function":"*","match":%q,%s},{"function":"*","match":%q,%[2]s}]`, a.id,
			action, stuck))
		for _, c := range []struct {
			name string
			call func(context.Context) error
		}{
			{"statistics of the pod", func(ctx context.Context) error {
				_, err := w.runtime.PodSandboxStats(ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: b.id})
				return err
			}},
			{"statistics of the container", func(ctx context.Context) error {
				_, err := w.runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
				return err
			}},
			{"lists", func(ctx context.Context) error {
				if _, err := w.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}); err != nil {
					return err
				}
				_, err := w.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
				return err
			}},
			{"exec", func(ctx context.Context) error {
				r, err := w.runtime.ExecSync(ctx,
					&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "exit 3"}, Timeout: 20})
				if err == nil && r.ExitCode != 3 {
					err = fmt.Errorf("exit code %d", r.ExitCode)
				}
				return err
			}},
			{"status of the pod that hangs", func(ctx context.Context) error {
				_, err := w.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: a.id})
				return err
			}},
			{"another pod", func(ctx context.Context) error { return w.removePod(w.runPod(t, "new")) }},
		} {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), normal)
			err := c.call(ctx)
			cancel()
			if took := time.Since(begun); err != nil || took > normal {
				t.Errorf("%s: %s after %v: %v", action, c.name, took, err)
			}
		}
		if action == `"action":"hang"` {
			w.listsWhileOneHangs(t)
		}
		w.setRules(t, "hcsd", `[]`)
	}

	check(t, w.removePod(a))
	w.endPod(t, b)
}

// listsWhileOneHangs asks for the statistics of all pods, which wait for those that hang.
func (w faultCases) listsWhileOneHangs(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := w.runtime.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{}); err == nil {
		t.Error(
			"the list of all statistics does not wait for the pod that hangs: docs/windows-facts.md says that it does")
	}
}
