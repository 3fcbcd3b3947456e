package kubelet

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
)

var update = flag.Bool("update", false, "write the log of facts that package pod plays again")

// recorded has the facts recorded, in a folder of their own.
func recorded(b *fakeNode) { b.facts = b.t.TempDir() }

// playAgain plays all recorded logs again, and wants the same plans. It returns what was recorded, by the pod's UID.
func (b *fakeNode) playAgain() map[string][]byte {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.facts, "*.jsonl"))
	if err != nil || len(files) == 0 {
		b.t.Fatalf("recorded: %v, %v", files, err)
	}

	logs := map[string][]byte{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			b.t.Fatal(err)
		}
		steps, err := pod.Replay(bytes.NewReader(text))
		if err != nil || len(steps) == 0 {
			b.t.Errorf("%s: %d plans, %v", name, len(steps), err)
		}
		for n, s := range steps {
			if !s.Same() {
				b.t.Errorf("%s: plan %d is\n%snot\n%s", name, n, s.Replayed, s.Recorded)
				break
			}
		}
		uid := filepath.Base(name)
		logs[uid[:len(uid)-len(".jsonl")]] = text
	}
	return logs
}

// TestRecordAndReplay: the facts about a pod that an actor has recorded lead to the same plans when they are played
// again, and they hold no secret. With -update the log becomes the one that package pod plays in its own tests.
func TestRecordAndReplay(t *testing.T) {
	const secret = "hunter2"
	var log []byte
	inBubble(t, func(b *fakeNode) {
		p := aPod("web", "sleep")
		p.Annotations = map[string]string{"note": secret}
		p.Spec.InitContainers = []v1.Container{aContainer("init", "exit", "0")}
		c := &p.Spec.Containers[0]
		c.Env = []v1.EnvVar{{Name: "TOKEN", Value: secret}}
		c.Resources = guaranteed("100m", "100Mi")
		c.Lifecycle = &v1.Lifecycle{PostStart: execHook("echo", secret)}
		uid := string(b.cluster.create(p).UID)

		b.untilReady(time.Minute, "web")
		b.resize("web", guaranteed("200m", "200Mi"))
		b.untilPod(time.Minute, "web", "resized", resizedTo(guaranteed("200m", "200Mi")))
		b.runtime.Crash(b.runningOnce("web")["web"].id, 3)
		b.untilPod(time.Minute, "web", "restarted", restarts(1))
		b.removeAll("web")
		b.untilGone(time.Minute, "web")
		b.nothingLeft()
		log = b.playAgain()[uid]
	}, recorded)

	if bytes.Contains(log, []byte(secret)) {
		t.Errorf("a secret was recorded:\n%s", log)
	}
	for _, fact := range []string{"Desired", "Checked", "SandboxMade", "ContainerStarted", "HookDone", "ResizeAgreed",
		"Resized", "StopBegan", "CleanedUp", "SandboxStopped", "Removed"} {
		if !bytes.Contains(log, []byte(`"type":"`+fact+`"`)) {
			t.Errorf("no fact %s was recorded", fact)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(filepath.Join("pod", "testdata", "record.jsonl"), log, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplayFaults: logs of pods whose kubelet was killed, and whose calls fail now and then, play again too.
func TestReplayFaults(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		names := b.create("pod", 5)
		b.untilReady(3*time.Minute, names...)
		b.restart()
		b.untilReady(3*time.Minute, names...)
		b.removeAll(names[:3]...)
		b.untilGone(3*time.Minute, names[:3]...)
		b.playAgain()
	}, faulty(1), recorded)
}
