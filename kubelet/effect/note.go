package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/kubelet/pod"
)

// ReadNote reads what an earlier kubelet had given the pod; nil if there is no note, or none that can be read.
func (e *Pod) ReadNote(ctx context.Context) *pod.Resize {
	var note pod.Resize
	text, err := os.ReadFile(notePath(e.podDir()))
	if err == nil {
		err = json.Unmarshal(text, &note)
	}

	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		klog.FromContext(ctx).Error(err, "The note of what a pod had been given cannot be read", "pod", e.uid)
		return nil
	}
	return &note
}

// notePath is where the note is in the folder of a pod.
func notePath(dir string) string { return filepath.Join(dir, "resources.json") }

// WriteNote notes what the pod has been given, for the next kubelet. A pod that was never resized needs no note.
func (e *Pod) WriteNote(note pod.Resize) error {
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
