package pod

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// TestFactsAreListed: every type with the method of a fact can be read from a log. What cannot be listed by reflection
// is found in the source.
func TestFactsAreListed(t *testing.T) {
	if len(factTypes) != len(allFacts) {
		t.Errorf("%d names for %d facts", len(factTypes), len(allFacts))
	}
	for name := range factSources(t) {
		if factTypes[name] == nil {
			t.Errorf("fact %s is missing in the list all", name)
		}
	}
}

// TestEntries: each fact comes back from a log as it was, apart from texts for people.
func TestEntries(t *testing.T) {
	for _, f := range allFacts {
		text, err := FactEntry(f, now)
		if err != nil {
			t.Fatal(err)
		}
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		back, err := e.decode()
		if err != nil || !reflect.DeepEqual(back, f) || !e.At.Equal(now) {
			t.Errorf("%T: %#v, %v", f, back, err)
		}
	}
}

// TestNoSecrets: no value of an environment variable, no argument, no annotation and no text of an error or a
// container gets into a log, whichever fact brings it.
func TestNoSecrets(t *testing.T) {
	const secret = "hunter2-do-not-record"
	text := func(field reflect.Value) { field.SetString(secret) }
	for _, f := range allFacts {
		v := reflect.New(reflect.TypeOf(f)).Elem()
		fill(v, text)
		line, err := FactEntry(v.Interface().(Fact), now)
		if err != nil {
			t.Fatalf("%T: %v", f, err)
		}
		if bytes.Contains(line, []byte(secret)) {
			t.Errorf("%T: %s", f, line)
		}
	}
}

// fill puts a secret into each field that may hold one: in a pod into everything that is free text, elsewhere into
// messages.
func fill(v reflect.Value, secret func(reflect.Value)) {
	switch p := v.Interface().(type) {
	case *v1.Pod:
		v.Set(reflect.ValueOf(secretPod(secret)))
		return
	case *observed.Runtime:
		_ = p
		v.Set(reflect.ValueOf(&observed.Runtime{Containers: []observed.Container{{ID: "c"}}}))
		secret(v.Elem().FieldByName("Containers").Index(0).FieldByName("Message"))
		return
	}

	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && v.CanSet() {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}

	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case !field.CanSet():
		case name == "Message" && v.Type() != reflect.TypeFor[Action]():
			secret(field)
		case name == "Failures":
			list := reflect.MakeSlice(field.Type(), 1, 1)
			secret(list.Index(0))
			field.Set(list)
		default:
			fill(field, secret)
		}
	}
}

func secretPod(fill func(reflect.Value)) *v1.Pod {
	var s string
	fill(reflect.ValueOf(&s).Elem())
	c := v1.Container{Name: "c", Image: "i", Command: []string{s}, Args: []string{s}, WorkingDir: s,
		Env: []v1.EnvVar{{Name: "TOKEN", Value: s}},
		LivenessProbe: &v1.Probe{
			ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: s,
				HTTPHeaders: []v1.HTTPHeader{{Name: "A", Value: s}}},
				Exec: &v1.ExecAction{Command: []string{s}}}},
		Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{s}}}}}
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}, InitContainers: []v1.Container{c},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)}},
		Volumes: []v1.Volume{{Name: "v",
			VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{VolumeAttributes: map[string]string{"token": s}}}}}}}
	p.Annotations, p.Labels = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": s},
		map[string]string{"l": s}
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: s},
		Waiting: &v1.ContainerStateWaiting{Message: s}}
	p.Status = v1.PodStatus{Message: s, Conditions: []v1.PodCondition{{Message: s}},
		ContainerStatuses: []v1.ContainerStatus{{State: ended, LastTerminationState: ended}}}
	return p
}

// TestFingerprint: another annotation is another fingerprint; nothing of it can be read.
func TestFingerprint(t *testing.T) {
	a, b := fingerprint(map[string]string{"a": "1", "b": "2"}), fingerprint(map[string]string{"a": "1", "b": "3"})
	if reflect.DeepEqual(a, b) || !reflect.DeepEqual(a, fingerprint(map[string]string{"b": "2", "a": "1"})) ||
		fingerprint(nil) != nil {
		t.Errorf("fingerprints %v, %v", a, b)
	}
}

// TestReplayFile plays the log of a pod that an actor has recorded (TestRecordAndReplay of package kubelet writes it
// again with -update) and plans the same.
func TestReplayFile(t *testing.T) {
	for _, name := range []string{"testdata/record.jsonl"} {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		steps, err := Replay(file)
		if err != nil || len(steps) < 5 {
			t.Fatalf("%s: %d plans, %v", name, len(steps), err)
		}
		for n, s := range steps {
			if !s.Same() {
				t.Errorf("%s: plan %d at %s is\n%snot\n%s", name, n, s.At.Format(time.RFC3339Nano), s.Replayed,
					s.Recorded)
			}
		}
	}
}

// TestReplayRefuses: a log that is not whole, or not ours, is not played.
func TestReplayRefuses(t *testing.T) {
	dropped, err := NewDroppedEntry(7, now)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{string(dropped): "7 entries were dropped",
		`{"type":"Unheard"}`: "no fact Unheard", "{": "line 1",
		`{"type":"Removed","fact":{"ID":1}}`: "decoding a fact Removed"} {
		if _, err := Replay(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
