package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/pod"
)

// windowsResize is why a Windows node refuses to resize pods, in upstream's words.
const windowsResize = "In-place pod resize is not supported on Windows"

// agreeResources finds out what the pod had been given, and asks the node for what it wants besides.
func (a *actor) agreeResources(ctx context.Context) {
	s := a.state
	if s.ResizeStep() == pod.ReadResizeNote {
		a.take(pod.Recalled{Note: a.readNote(ctx)}, time.Now())
	}

	switch s.ResizeStep() {
	case pod.KeepRoom:
		a.admission.Keep(s.Wanted())
		a.take(pod.ResizeSettled{}, time.Now())
	case pod.DropResize:
		a.take(pod.ResizeSettled{}, time.Now())
	case pod.AskRoom:
		a.askRoom(ctx)
	}
}

// askRoom asks the node for other resources than the pod has.
func (a *actor) askRoom(ctx context.Context) {
	refusal := &admit.Refusal{Reason: v1.PodReasonInfeasible, Message: windowsResize}
	if !a.effects.windows {
		if refusal = a.admission.placing.resizeRefusal(a.state.Pod(), a.state.Wanted()); refusal == nil {
			refusal = a.admission.Resize(a.state.Wanted(), a.effects.allocatable(), time.Now())
		}
	}

	waited := pod.ResizeWaits(a.state)
	if refusal != nil {
		f := pod.ResizeRefused{Reason: v1.PodReasonDeferred, Message: refusal.Message}
		if refusal.Reason == v1.PodReasonInfeasible {
			f.Reason = v1.PodReasonInfeasible
			if waited != f.Reason {
				a.meter.Resizes().Infeasible(infeasible(refusal.Message))
			}
		}
		a.take(f, time.Now())
		return
	}

	if err := a.effects.writeNote(a.state.AgreedNote()); err != nil { // else the next kubelet would not know: ask again
		klog.FromContext(ctx).Error(err, "A resize cannot be noted", "pod", a.uid)
		return
	}
	a.take(pod.ResizeAgreed{}, time.Now())
	if waited == v1.PodReasonDeferred {
		a.meter.Resizes().Late("pods_removed")
	}
}

// askAdmission asks the node whether it runs the pod: once, or again while the pod waits for room.
func (a *actor) askAdmission(ctx context.Context) {
	s := a.state
	if !s.NeedsAdmission() || s.Static() && !a.statics.MayStart(s.Pod()) {
		return
	}
	running := len(s.Runtime().Containers) > 0
	if !running && !s.Static() && !a.knowledge.mayAdmit() {
		return
	}

	switch refusal, waits := a.admission.decide(ctx, s.Pod(), running); {
	case refusal != nil:
		a.meter.Life().Rejected(refusal.Reason)
		a.take(pod.Refused{Reason: refusal.Reason, Message: refusal.Message}, time.Now())
	case !waits:
		a.take(pod.Admitted{}, time.Now())
	}
}

// readNote reads what an earlier kubelet had given the pod; nil if there is no note, or none that can be read.
func (a *actor) readNote(ctx context.Context) *pod.Resize {
	var note pod.Resize
	text, err := os.ReadFile(notePath(a.effects.podDir()))
	if err == nil {
		err = json.Unmarshal(text, &note)
	}

	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		klog.FromContext(ctx).Error(err, "The note of what a pod had been given cannot be read", "pod", a.uid)
		return nil
	}
	return &note
}

// notePath is where the note is in the folder of a pod.
func notePath(dir string) string { return filepath.Join(dir, "resources.json") }

// writeNote notes what the pod has been given, for the next kubelet. A pod that was never resized needs no note.
func (e *effects) writeNote(note pod.Resize) error {
	text, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding what the pod has been given: %w", err)
	}
	path := notePath(e.podDir())
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("making the folder of the pod: %w", err)
	}
	if err := atomicfile.Write(path, text, 0o600); err != nil {
		return fmt.Errorf("noting what the pod has been given: %w", err)
	}
	return nil
}
