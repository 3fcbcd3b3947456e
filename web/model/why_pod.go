package model

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// whyPod follows a pod from the scheduler to Ready.
func whyPod(f *Facts, p *v1.Pod, now time.Time) Chain {
	key := p.Namespace + "/" + p.Name
	c := Chain{Kind: "pod", Name: key, Seen: happenings(f, "Pod", p.Namespace, p.Name, string(p.UID))}
	w := podWay{f: f, p: p, seen: c.Seen, now: now, key: key}
	if p.DeletionTimestamp != nil {
		c.Steps = []Step{w.ending()}
		return c.finish("it ends")
	}
	if p.Status.Phase == v1.PodSucceeded {
		c.Steps = []Step{w.scheduled(),
			{Name: "completed", State: Right, To: lastChange(p), Text: "all containers ended with 0"}}
		return c.finish("it has completed")
	}

	c.Steps = []Step{w.scheduled()}
	if p.Spec.NodeName != "" {
		c.Steps = append(c.Steps, w.node(), w.volumes(), w.sandbox(), w.image())
		if len(p.Spec.InitContainers) > 0 {
			c.Steps = append(c.Steps, w.condition("init containers", v1.PodInitialized))
		}
		c.Steps = append(c.Steps, w.containers(), w.ready())
	}
	w.times(c.Steps)
	return c.finish("it is ready since " + lastChange(p).Format(time.RFC3339))
}

// podWay is what the steps of a pod are taken from.
type podWay struct {
	f    *Facts
	p    *v1.Pod
	seen []Happening
	now  time.Time
	key  string
}

// describe is the command that shows all that the API has of the pod.
func (w *podWay) describe() []string {
	return []string{fmt.Sprintf("kubectl describe pod -n %s %s", w.p.Namespace, w.p.Name)}
}

// ending is the step of a pod that is being deleted, which has no others.
func (w *podWay) ending() Step {
	state, _, problem := judgeEnding(w.p, w.now)
	return Step{Name: "end", State: state, Text: problem.Text, From: w.p.DeletionTimestamp.UTC(),
		Do: append(w.describe(), "porthole why node "+w.p.Spec.NodeName)}
}

// scheduled is the step from the pod's creation until it has a node.
func (w *podWay) scheduled() Step {
	s := Step{Name: "a node is chosen", State: Right, From: w.p.CreationTimestamp.UTC()}
	if w.p.Spec.NodeName != "" {
		s.Text = w.p.Spec.NodeName
		if c := condition(w.p, v1.PodScheduled); c != nil {
			s.To = c.LastTransitionTime.UTC()
		}
		return s
	}
	state, _, problem := judgePod(w.p, nil, w.now)
	s.State = state
	s.Text = problem.Text
	s.Tried = w.tried("FailedScheduling")
	s.Do = append(w.describe(), "kubectl get nodes")
	return s
}

// node is the state of the pod's node: a pod waits for a node that does not work, whatever its own events say.
func (w *podWay) node() Step {
	s := Step{Name: "its node works", State: Right}
	var object *v1.Node
	for _, n := range w.f.Nodes {
		if n.Name == w.p.Spec.NodeName {
			object = n
		}
	}
	var report *Report
	if r, asked := w.f.Reports[w.p.Spec.NodeName]; asked {
		report = &r
	}
	n := buildNode(w.p.Spec.NodeName, object, report, w.now)
	for _, p := range n.Problems {
		if p.State == Wrong && !n.Ready {
			s.State = Wrong
			s.Text = p.Text
			s.Do = []string{"porthole why node " + n.Name}
			return s
		}
	}
	return s
}

// volumes is the step until all volumes are mounted, which is known by the sandbox: it comes after
// them.
func (w *podWay) volumes() Step {
	s := Step{Name: "volumes", State: Right}
	if len(w.p.Spec.Volumes) == 0 {
		s.Text = "it has none"
		return s
	}
	if w.hasSandbox() {
		s.Text = fmt.Sprintf("%d mounted", len(w.p.Spec.Volumes))
		return s
	}
	s.State = Making
	if e := w.warning("FailedMount", "FailedAttachVolume", "FailedMapVolume"); e != nil {
		s.State = w.judge(e)
		s.Text = sentence("not mounted", e.Reason, e.Text)
		s.Tried = w.tried(e.Reason)
		s.Do = w.describe()
	}
	return s
}

// hasSandbox goes by the condition, and without it by containers that have started.
func (w *podWay) hasSandbox() bool {
	c := condition(w.p, v1.PodReadyToStartContainers)
	return c != nil && c.Status == v1.ConditionTrue || w.started() > 0
}

// sandbox is the step until the pod has its network. Warnings say why it has none.
func (w *podWay) sandbox() Step {
	s := Step{Name: "sandbox and network", State: Right, Text: w.p.Status.PodIP}
	if w.hasSandbox() {
		if c := condition(w.p, v1.PodReadyToStartContainers); c != nil && c.Status == v1.ConditionTrue {
			s.To = c.LastTransitionTime.UTC()
		}
		s.Text = joined(s.Text, w.isolation())
		return s
	}
	s.State = Making
	if e := w.warning("FailedCreatePodSandBox", "NetworkNotReady", "SandboxChanged"); e != nil {
		s.State = w.judge(e)
		s.Text = sentence("not made", e.Reason, e.Text)
		s.Tried = w.tried(e.Reason)
		s.Do = []string{"porthole why node " + w.p.Spec.NodeName,
			"porthole host hns " + w.p.Spec.NodeName + " stats   # emulated hosts"}
	}
	return s
}

// isolation returns a sentence for pods with a RuntimeClass on an emulated Windows host: such a host has no Hyper-V
// isolation. For other pods it returns "". The sentence is there for every RuntimeClass, because the facts do not have
// the handler of the class.
func (w *podWay) isolation() string {
	if !w.f.Local || w.p.Spec.RuntimeClassName == nil || *w.p.Spec.RuntimeClassName == "" {
		return ""
	}
	for _, n := range w.f.Nodes {
		if n.Name == w.p.Spec.NodeName && n.Labels[v1.LabelOSStable] == "windows" {
			return fmt.Sprintf("RuntimeClass %s: not isolated by Hyper-V here, whatever it asks for: emulated",
				*w.p.Spec.RuntimeClassName)
		}
	}
	return ""
}

// joined returns both texts, or the one that is not empty.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// image is the step of all images. It is over when a container has started, whatever events are
// left.
func (w *podWay) image() Step {
	s := Step{Name: "images", State: Right}
	if waits, name := badWait(w.p); waits != nil &&
		slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
			"ErrImageInspect", "RegistryUnavailable"}, waits.Reason) {
		s.State = Wrong
		s.Text = sentence("container "+name, waits.Reason, waits.Message)
		s.Tried = w.tried("Failed", "BackOff")
		for _, c := range w.p.Spec.Containers {
			s.Do = append(s.Do, "porthole images check "+c.Image)
		}
		return s
	}

	pulling := w.last("Pulling")
	pulled := w.last("Pulled")
	switch {
	case pulled != nil:
		s.To, s.Text = pulled.At, pulled.Text
	case w.started() > 0:
	case pulling != nil:
		s.State, s.Text = Making, pulling.Text
	default:
		s.State = Making
	}
	if pulling != nil {
		s.From = pulling.At
	}
	return s
}

// condition is a step that a condition of the pod stands for; without the condition it has not
// begun.
func (w *podWay) condition(name string, kind v1.PodConditionType) Step {
	s := Step{Name: name, State: Making}
	c := condition(w.p, kind)
	if c == nil {
		return s
	}
	if c.Status == v1.ConditionTrue {
		s.State, s.To = Right, c.LastTransitionTime.UTC()
		return s
	}
	s.Text = sentence("not done", c.Reason, c.Message)
	return s
}

// started counts the containers that have run.
func (w *podWay) started() (n int) {
	for _, c := range w.p.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
			n++
		}
	}
	return n
}

// containers is the step until all containers run. It ends with the start of the last one.
func (w *podWay) containers() Step {
	s := Step{Name: "containers start", State: Making}
	running, restarts := 0, int32(0)
	for _, c := range w.p.Status.ContainerStatuses {
		restarts += c.RestartCount
		if r := c.State.Running; r != nil {
			running++
			if r.StartedAt.After(s.To) {
				s.To = r.StartedAt.UTC()
			}
		}
	}
	if running == len(w.p.Spec.Containers) {
		s.State = Right
		s.Text = plural(running, "container") + " running"
		if restarts > 0 {
			s.Text += fmt.Sprintf(", restarted %d times", restarts)
		}
		return s
	}

	// s.To is that of containers that run; the step goes on.
	s.To = time.Time{}
	if waits, name := badWait(w.p); waits != nil {
		s.State = Wrong
		s.Text = sentence("container "+name, waits.Reason, waits.Message)
		s.Tried = w.tried("BackOff", "Failed")
		s.Do = []string{fmt.Sprintf("kubectl logs -n %s %s -c %s --previous", w.p.Namespace, w.p.Name, name)}
		for _, c := range w.p.Status.ContainerStatuses {
			if t := c.LastTerminationState.Terminated; t != nil && c.Name == name {
				s.Text += fmt.Sprintf("; it ended with %d (%s) at %s", t.ExitCode, dash(t.Reason),
					t.FinishedAt.UTC().Format(time.RFC3339))
			}
		}
	}
	return s
}

// ready is the step until the pod is Ready. As long as not all containers run it says nothing of
// its own.
func (w *podWay) ready() Step {
	s := w.condition("ready", v1.PodReady)
	if s.State == Right {
		return s
	}
	if w.p.Status.Phase != v1.PodRunning {
		s.Text = ""
		return s
	}
	e := w.warning("Unhealthy", "ProbeWarning")
	var event *v1.Event
	if e != nil {
		event = &v1.Event{Reason: e.Reason, Message: e.Text}
		s.Tried = w.tried(e.Reason)
	}
	state, _, problem := judgeUnready(w.p, event, w.now)
	s.State = state
	s.Text = problem.Text
	s.Do = append(w.describe(), fmt.Sprintf("kubectl logs -n %s %s", w.p.Namespace, w.p.Name))
	return s
}

// judge tells an obstacle from a warning that comes once while a pod starts.
func (w *podWay) judge(e *Happening) State {
	if e.Count > 2 {
		return Wrong
	}
	return Making
}

// warning returns the last event with one of the reasons, if nothing better followed.
func (w *podWay) warning(reasons ...string) *Happening {
	for i := len(w.seen) - 1; i >= 0; i-- {
		if w.seen[i].Warning && slices.Contains(reasons, w.seen[i].Reason) {
			return &w.seen[i]
		}
	}
	return nil
}

// last returns the newest event with a reason; nil if there is none.
func (w *podWay) last(reason string) *Happening {
	for i := len(w.seen) - 1; i >= 0; i-- {
		if w.seen[i].Reason == reason {
			return &w.seen[i]
		}
	}
	return nil
}

// tried says how often something was attempted, and when last.
func (w *podWay) tried(reasons ...string) string {
	count := int32(0)
	var last time.Time
	for _, e := range w.seen {
		if slices.Contains(reasons, e.Reason) {
			count += max(e.Count, 1)
			last = e.At
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s, the last %s ago", plural(int(count), "time"), short(w.now.Sub(last)))
}

// times gives each step the end of the one before as its beginning, as far as it is known.
func (w *podWay) times(steps []Step) {
	var last time.Time
	for i := range steps {
		s := &steps[i]
		if s.From.IsZero() && (!s.To.IsZero() || s.State != Right) {
			s.From = last
		}
		if s.To.After(last) {
			last = s.To
		}
		if !s.To.IsZero() && s.From.After(s.To) {
			s.From = s.To
		}
	}
}
