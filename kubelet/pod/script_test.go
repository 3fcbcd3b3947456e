package pod

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/script"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// TestScripts plays testdata/*.txtar. A script is the life of one pod; its sections are
//
//	pod            the pod as its source has it, in YAML; again when it changes. metadata.deletionTimestamp may be "now"
//	static pod     the same from a file
//	pod gone       the source no longer has it
//	sources read   all sources are read: what no source has is an orphan
//	runtime        what the runtime has of the pod, in YAML: see scriptRuntime. The first one is a full check, later ones are events
//	ready          what is there already, a line each: "volumes", "image CONTAINER"
//	facts          a fact on each line: its type, and its fields as JSON
//	after 5s       time passes
//	want plan      one pass of the actor: Plan.Describe. The planned actions are under way from then on
//	want status    the status of that plan: phase, reason, and a line for each container
//
// The node admits every pod and agrees to every resize, unless a fact says otherwise first.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txtar", func(*testing.T) script.Player {
		return &player{state: NewState(), now: now, told: map[string]bool{}}
	})
}

// player plays the actor of one pod.
type player struct {
	state *State
	now   time.Time
	plan  Plan
	told  map[string]bool // events that were sent
}

// scriptRuntime is what the runtime has of a pod. Times are ages.
type scriptRuntime struct {
	Sandboxes []struct {
		ID      string
		Attempt uint32
		Down    bool
		IPs     []string
	}
	Containers []struct {
		ID, Sandbox, Name string
		State             string // created, running, exited
		Attempt           uint32
		Code              int32
		Ended, Made       string // how long ago; Made empty for now
		Image             string // what it was made from, if it is not what its spec says
		MadeWith          *v1.ResourceRequirements
	}
}

func (p *player) take(f Fact) { p.state.Take(f, p.now) }

// Give takes in a section.
func (p *player) Give(section, text string) error {
	if d, ok := strings.CutPrefix(section, "after "); ok {
		wait, err := time.ParseDuration(d)
		p.now = p.now.Add(wait)
		return err
	}

	switch section {
	case "pod", "static pod":
		return p.givePod(text, section == "static pod")
	case "pod gone":
		p.take(SourceGone{})
	case "sources read":
		p.take(SourcesReady{})
	case "runtime":
		return p.giveRuntime(text)
	case "ready":
		return p.giveReady(text)
	case "facts":
		return p.giveFacts(text)
	default:
		return fmt.Errorf("there is no section %q", section)
	}

	return nil
}

func (p *player) givePod(text string, static bool) error {
	var loose map[string]any
	if err := yaml.Unmarshal([]byte(text), &loose); err != nil {
		return err
	}

	meta, _ := loose["metadata"].(map[string]any)
	deleted := meta["deletionTimestamp"] == "now"
	if deleted {
		delete(meta, "deletionTimestamp")
	}

	data, err := json.Marshal(loose)
	if err != nil {
		return err
	}

	var out v1.Pod
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		return err
	}
	if deleted {
		at := metav1.NewTime(p.now)
		out.DeletionTimestamp = &at
	}

	p.take(Desired{Pod: &out, Static: static})
	return nil
}

func (p *player) giveRuntime(text string) error {
	var in scriptRuntime
	if err := yaml.UnmarshalStrict([]byte(text), &in); err != nil {
		return err
	}

	r := &observed.Runtime{}
	for _, b := range in.Sandboxes {
		r.Sandboxes = append(r.Sandboxes,
			observed.Sandbox{ID: b.ID, Attempt: b.Attempt, Ready: !b.Down, IPs: b.IPs, CreatedAt: p.now})
	}

	for _, c := range in.Containers {
		one := observed.Container{ID: c.ID, SandboxID: c.Sandbox, Name: c.Name, Attempt: c.Attempt, ExitCode: c.Code,
			CreatedAt: p.now, MadeWith: c.MadeWith}
		if c.Made != "" {
			age, err := time.ParseDuration(c.Made)
			if err != nil {
				return fmt.Errorf("container %s: %w", c.ID, err)
			}
			one.CreatedAt = p.now.Add(-age)
		}
		if c.Image != "" {
			one.Hash = desired.Hash(&v1.Container{Name: c.Name, Image: c.Image})
		}
		if err := one.State.UnmarshalText([]byte(c.State)); err != nil {
			return err
		}
		switch one.State {
		case observed.Running:
			one.StartedAt = p.now
		case observed.Exited:
			age, err := time.ParseDuration(c.Ended)
			if err != nil {
				return fmt.Errorf("container %s: %w", c.ID, err)
			}
			one.FinishedAt = p.now.Add(-age)
		}
		r.Containers = append(r.Containers, one)
	}

	if p.state.Runtime() == nil {
		p.take(Checked{Runtime: r, Began: p.now})
	} else {
		p.take(Observed{Runtime: r})
	}
	return nil
}

func (p *player) giveReady(text string) error {
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case len(words) == 1 && words[0] == "volumes":
			p.take(ActionStarted{Action{Kind: PrepareVolumes, Key: VolumesKey}})
			p.take(VolumesPrepared{})
		case len(words) == 2 && words[0] == "image":
			a := Action{Kind: EnsureImage, Key: imageActionKey(words[1]), Name: words[1]}
			name, _, _ := WantedImage(p.state.Pod(), a)
			p.take(ActionStarted{a})
			p.take(ImagePresent{ImageAsked: ImageAsked{Container: words[1], Image: name}, Ref: "r"})
		default:
			return fmt.Errorf("cannot be ready: %q", line)
		}
	}
	return nil
}

func (p *player) giveFacts(text string) error {
	for line := range strings.Lines(text) {
		name, fields, _ := strings.Cut(strings.TrimSpace(line), " ")
		if fields == "" {
			fields = "{}"
		}
		e := Entry{Type: name, Fact: json.RawMessage(fields)}
		f, err := e.decode()
		if err != nil {
			return err
		}
		p.take(f)
	}
	return nil
}

// Show makes a pass, or shows more of the last one.
func (p *player) Show(section string) (string, error) {
	switch section {
	case "want plan":
		return p.pass()
	case "want status":
		return p.status(), nil
	}
	return "", fmt.Errorf("there is no section %q", section)
}

func (p *player) pass() (string, error) {
	p.askNode()
	plan := Reconcile(p.state, Node{HostIPs: []string{"10.0.0.1"}, RuntimeName: "containerd"}, p.now)
	if broken := Broken(p.state, &plan); broken != nil {
		return "", fmt.Errorf("broken: %v", broken)
	}

	if plan.Stopping {
		p.take(StopBegan{})
	}

	var fresh []Event
	for _, e := range plan.Events {
		if key := e.Key + "/" + e.Reason; e.Key == "" || !p.told[key] {
			p.told[key] = true
			fresh = append(fresh, e)
		}
	}

	plan.Events = fresh
	p.take(EventsSent{})
	if p.state.Pod() != nil && p.state.Runtime() != nil {
		p.take(Published{Status: plan.Status})
	}

	for _, a := range plan.Actions {
		p.take(ActionStarted{a})
	}

	p.plan = plan
	return plan.Describe(p.now), nil
}

func (p *player) askNode() {
	if p.state.ResizeStep() == ReadResizeNote {
		p.take(Recalled{})
	}
	switch p.state.ResizeStep() {
	case AskRoom:
		p.take(ResizeAgreed{})
	case KeepRoom, DropResize:
		p.take(ResizeSettled{})
	}
	if p.state.NeedsAdmission() {
		p.take(Admitted{})
	}
}

func (p *player) status() string {
	st := &p.plan.Status
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s %s", st.Phase, st.Reason)))
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses,
		st.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			ready := ""
			if c.Ready {
				ready = " ready"
			}
			fmt.Fprintf(&b, "%s %s restarts=%d%s\n", c.Name, strings.TrimSpace(stateText(c)), c.RestartCount, ready)
		}
	}
	return b.String()
}
