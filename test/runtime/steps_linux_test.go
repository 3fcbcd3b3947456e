package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// faultCases are the tests of faults in the life of a pod.
type faultCases struct{ containers }

// step is a moment in the life of a pod at which a program is killed: a call of HNS or HCS has been carried out, and
// its caller waits for the answer. Without a function it is the moment after a part of the life, when nobody waits for
// anything.
type step struct {
	name     string
	during   string // what the pod does then, or has done: one of parts
	daemon   string // hnsd or hcsd
	function string
	kills    []string
}

// parts of a pod's life, in their order.
var parts = []string{"sandbox", "create", "start", "exec", "end", "stop", "remove"}

// aside are parts that other steps do without.
var aside = []string{"exec", "end"}

var (
	runtimeKills = []string{containerdProgram, hcsdProgram, kernelProgram} // no shim runs yet, or it does not wait
	allKills     = []string{containerdProgram, shimProgram, hcsdProgram, kernelProgram}
)

// steps are those calls of a pod's life after which something has to be taken back, and the states between.
var steps = []step{
	{"namespace", "sandbox", "hnsd", "HcnCreateNamespace", runtimeKills},
	{"endpoint", "sandbox", "hnsd", "HcnCreateEndpoint", runtimeKills},
	{"layer active", "sandbox", "hcsd", "ActivateLayer", allKills},
	{"layer mounted", "sandbox", "hcsd", "PrepareLayer", allKills},
	{"system made", "sandbox", "hcsd", "HcsCreateComputeSystem", allKills},
	{"system started", "sandbox", "hcsd", "HcsStartComputeSystem", allKills},
	{"sandbox made", "sandbox", "", "", allKills},
	{"container created", "create", "", "", allKills},
	{"process made", "start", "hcsd", "HcsCreateProcess", allKills},
	{"container started", "start", "", "", allKills},
	{"exec", "exec", "hcsd", "HcsCreateProcess", allKills},
	{"container ended", "end", "", "", allKills},
	{"process ended", "stop", "hcsd", "HcsTerminateProcess", allKills},
	{"system stopped", "stop", "hcsd", "HcsShutdownComputeSystem", allKills},
	{"layer unmounted", "stop", "hcsd", "UnprepareLayer", allKills},
	{"endpoint deleted", "stop", "hnsd", "HcnDeleteEndpoint", runtimeKills},
	{"namespace deleted", "stop", "hnsd", "HcnDeleteNamespace", runtimeKills},
	{"pod stopped", "stop", "", "", runtimeKills},
	{"layer removed", "remove", "hcsd", "DestroyLayer", runtimeKills},
}

// leaked is what containerd leaves by itself, on Windows as here: it writes a sandbox down with its namespace's path
// when the namespace is made (2.3.6, internal/cri/server/sandbox_run.go), so that nobody knows of a namespace whose
// answer it did not live to see.
func leaked(s step, program string) string {
	if s.function == "HcnCreateNamespace" && (program == containerdProgram || program == kernelProgram) {
		return "namespace "
	}
	return ""
}

// testSteps kills each program at each step. Afterwards CRI answers, the pod can be removed, and nothing of it is left.
func (w faultCases) testSteps(t *testing.T) {
	for _, s := range steps {
		for _, program := range s.kills {
			name := strings.TrimSuffix(filepath.Base(strings.ReplaceAll(program, `\`, "/")), ".exe")
			t.Run(s.name+"/"+strings.TrimPrefix(strings.TrimPrefix(name, "host-"), "containerd-"),
				func(t *testing.T) { w.testStep(t, s, program) })
		}
	}
}

func (w faultCases) testStep(t *testing.T, s step, program string) {
	before := w.everything(t)
	name := strings.ReplaceAll(s.name, " ", "-")
	p, do, giveUp := w.newLife(t, name)
	defer giveUp()
	for _, part := range parts[:slices.Index(parts, s.during)] {
		if !slices.Contains(aside, part) {
			check(t, do[part]())
		}
	}
	if s.function == "" {
		check(t, do[s.during]())
		w.kill(t, program)
		w.answers(t)
	} else {
		w.killDuring(t, s, program, do[s.during])
	}
	giveUp()
	w.removeNamed(t, p.config.Metadata.Uid)
	w.isAsBefore(t, before, leaked(s, program))
}

// newLife returns a pod, and the CRI calls of each part of its life. giveUp cancels the calls, as a kubelet does that
// has waited long enough.
func (w faultCases) newLife(t *testing.T, name string) (p *pod, do map[string]func() error, giveUp func()) {
	t.Helper()
	w.write("var/log/pods/"+name+"/.keep", "")
	p = &pod{config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: fmt.Sprint(name, time.Now().UnixNano()),
			Namespace: "default"},
		LogDirectory: `C:\var\log\pods\` + name, Windows: &runtimeapi.WindowsPodSandboxConfig{},
	}}
	ctx, giveUp := context.WithTimeout(t.Context(), time.Minute)
	return p, w.partsOf(ctx, t, p), giveUp
}

// killDuring kills a program while a call of a part of a pod's life waits for its answer.
func (w faultCases) killDuring(t *testing.T, s step, program string, part func() error) {
	t.Helper()
	w.setRules(t, s.daemon, fmt.Sprintf(`[{"function":%q,"action":"mute"}]`, s.function))
	ended := make(chan error, 1)
	go func() { ended <- part() }()
	wait.True(t, 30*time.Second, s.function+" waits for its answer",
		func() bool { return w.callsHeld(t, s.daemon) > 0 })
	w.kill(t, program)
	w.setRules(t, s.daemon, `[]`)
	w.answers(t)
	select {
	case err := <-ended:
		t.Logf("the call ended with %v", err)
	case <-time.After(10 * time.Second):
		t.Log("the call has not ended")
	}
}

// isAsBefore waits until the host has of pods what it had before, and what begins with leak, if that is not "": one
// thing, which it takes back.
func (w faultCases) isAsBefore(t *testing.T, before []string, leak string) {
	t.Helper()
	var more []string
	known := func(item string) bool { return slices.Contains(before, item) }
	wait.NoError(t, time.Minute, "the host to be as before", func() error {
		more = slices.DeleteFunc(w.everything(t), known)
		if slices.ContainsFunc(more, func(item string) bool { return leak == "" || !strings.HasPrefix(item, leak) }) {
			return fmt.Errorf("left: %s", strings.Join(more, "\n"))
		}
		return nil
	})
	if leak != "" && len(more) != 1 {
		t.Errorf("containerd left %v: is it mended there?", more)
	}
	for _, item := range more {
		w.must("hns", w.name, "lose", "Namespace", "match="+strings.TrimPrefix(item, leak))
	}
}

// partsOf are the parts of a pod's life, in CRI's calls.
func (w faultCases) partsOf(ctx context.Context, t *testing.T, p *pod) map[string]func() error {
	id := ""
	return map[string]func() error{
		"sandbox": func() error {
			r, err := w.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config})
			p.id = r.GetPodSandboxId()
			return err
		},

		"create": func() error {
			c, err := w.runtime.CreateContainer(ctx,
				&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config,
					Config: &runtimeapi.ContainerConfig{
						Metadata: &runtimeapi.ContainerMetadata{Name: "a"},
						Image:    &runtimeapi.ImageSpec{Image: testImage},
						LogPath:  "a.log", Windows: &runtimeapi.WindowsContainerConfig{}}})
			id = c.GetContainerId()
			return err
		},
		"start": func() error {
			_, err := w.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
			return err
		},

		"exec": func() error {
			_, err := w.runtime.ExecSync(ctx,
				&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "exit 3"}, Timeout: 20})
			return err
		},
		"end": func() error {
			_, err := w.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
			return err
		},
		"stop": func() error {
			_, err := w.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
			return err
		},
		"remove": func() error {
			_, err := w.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
			return err
		},
	}
}

// removeNamed stops and removes the sandboxes that CRI lists of a pod, as the kubelet does it until it succeeds.
func (w faultCases) removeNamed(t *testing.T, uid string) {
	t.Helper()
	wait.NoError(t, 2*time.Minute, "the pod is removed", func() error {
		list, err := w.runtime.ListPodSandbox(call(t), &runtimeapi.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		errs := []error{}
		for _, box := range list.Items {
			if box.Metadata.Uid == uid {
				errs = append(errs, w.removePod(pod{id: box.Id}))
			}
		}
		return errors.Join(errs...)
	})
}

// everything names what the host has of pods: systems, cgroups, shims, mounts, namespaces, endpoints, and what
// containerd keeps of them.
func (w faultCases) everything(t *testing.T) (all []string) {
	t.Helper()
	all = strings.Fields(w.left(t))
	mounts, err := platform.MountPointsBelow(filepath.Join(w.dir, "hosts", w.name))
	check(t, err)
	all = append(all, mounts...)

	var dump struct{ Namespaces, Endpoints []struct{ ID string } }
	check(t, json.Unmarshal([]byte(w.must("hns", w.name, "dump", "-o", "json")), &dump))
	for _, n := range dump.Namespaces {
		all = append(all, "namespace "+n.ID)
	}
	for _, e := range dump.Endpoints {
		all = append(all, "endpoint "+e.ID)
	}
	netns, err := filepath.Glob("/run/netns/*" + w.name + "*")
	check(t, err)
	all = append(all, netns...)

	for _, kind := range []string{"containers", "tasks", "snapshots"} {
		out, err := exec.CommandContext(t.Context(), w.porthole, "host", "ctr", "--dir", w.dir, w.name, kind).Output()
		if err != nil { // containerd starts again
			return append(all, fmt.Sprintf("%s: %v", kind, err))
		}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 0 {
				all = append(all, kind+" "+fields[0])
			}
		}
	}
	return all
}

// control makes a call of the control interface of the host's hnsd or hcsd, which a killed one does not answer at once.
func (w faultCases) control(t *testing.T, daemon, method, body string) []byte {
	t.Helper()
	socket := filepath.Join(w.dir, "hosts", w.name, daemon+".sock")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	var answer []byte
	wait.NoError(t, 30*time.Second, daemon+" answers", func() error {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+daemon+"/faults",
			bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if answer, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, answer)
		}
		return err
	})
	return answer
}

func (w faultCases) setRules(t *testing.T, daemon, rules string) {
	t.Helper()
	w.control(t, daemon, "POST", rules)
}

// callsHeld is how many calls have been carried out, and wait because of the first rule.
func (w faultCases) callsHeld(t *testing.T, daemon string) int {
	t.Helper()
	var rules []struct{ Held int }
	check(t, json.Unmarshal(w.control(t, daemon, "GET", ""), &rules))
	if len(rules) == 0 {
		t.Fatalf("%s has no rule", daemon)
	}
	return rules[0].Held
}
