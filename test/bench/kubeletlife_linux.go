package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// ends measures the time from the DELETE of a pod until it is gone. Its grace period is long, and its program exits on
// TERM at once.
func ends(ctx context.Context, s *side, rounds int) error {
	for range rounds {
		// Without a period of its own the pod has the API's default of 30 s.
		b, err := s.start(ctx, 1, func(_ int, p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil })
		if err != nil {
			return err
		}
		if err := s.hears(ctx); err != nil {
			return err
		}
		// A new watch: what the batch's has said of the pod so far does not count.
		seen := newWatcher()
		if err := seen.follow(ctx, s.w.Client.CoreV1().Pods(namespace)); err != nil {
			return err
		}
		began := time.Now()
		if err := s.w.Client.CoreV1().Pods(namespace).Delete(ctx, b.names[0], metav1.DeleteOptions{}); err != nil {
			return err
		}
		at, err := seen.wait(ctx, "to be gone", b.names[0], isGone)
		if err != nil {
			return err
		}
		s.add("end", at.Sub(began).Seconds())
		if err := s.cleared(ctx); err != nil {
			return err
		}
	}

	return nil
}

// cleared waits until nothing is in the runtime, with the help that upstream's kubelet needs.
func (s *side) cleared(ctx context.Context) error {
	if s.name == peer {
		return s.removeAll(ctx)
	}
	return s.without(ctx, nil)
}

// crashes kills the container of a new pod and measures the time until the API shows the next one as running.
func crashes(ctx context.Context, s *side, rounds int) error {
	for range rounds {
		b, err := s.start(ctx, 1, nil)
		if err != nil {
			return err
		}
		id, err := s.only(ctx)
		if err != nil {
			return err
		}
		began, err := s.crash(ctx, id)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, patience(1))
		// The pod's former states are forgotten; a restart that has happened already is in the list
		// that the watch begins with.
		if err := b.seen.follow(limited, s.w.Client.CoreV1().Pods(namespace)); err != nil {
			cancel()
			return err
		}
		at, err := b.restarted(limited)
		cancel()
		if err != nil {
			return err
		}
		s.add("crash", at.Sub(began).Seconds())
		if _, err := b.end(ctx); err != nil {
			return err
		}
	}

	return nil
}

// restarted is when the pod's container was seen to run again.
func (b *batch) restarted(ctx context.Context) (time.Time, error) {
	again := func(p *v1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0 &&
			p.Status.ContainerStatuses[0].State.Running != nil
	}
	return b.seen.wait(ctx, "to run again", b.names[0], again)
}

// only is the one container that runs.
func (s *side) only(ctx context.Context) (string, error) {
	list, err := s.w.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err == nil && len(list.Containers) != 1 {
		err = fmt.Errorf("%d containers are there", len(list.Containers))
	}
	if err != nil {
		return "", err
	}
	return list.Containers[0].Id, nil
}

// pid is the first process of a container.
func (s *side) pid(ctx context.Context, id string) (int, error) {
	st, err := s.w.Runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	var info struct {
		Pid int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(st.Info["info"]), &info); err != nil {
		return 0, fmt.Errorf("reading the details of container %s: %w", id, err)
	}
	if info.Pid <= 1 {
		return 0, fmt.Errorf("container %s has no process", id)
	}
	return info.Pid, nil
}

// crash kills the process of a container.
// It returns the moment just before the signal.
func (s *side) crash(ctx context.Context, id string) (time.Time, error) {
	pid, err := s.pid(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	return time.Now(), syscall.Kill(pid, syscall.SIGKILL)
}

// hears waits until the program in the one container handles TERM: before that the kernel drops it, for it is the first
// of its namespace.
func (s *side) hears(ctx context.Context) error {
	id, err := s.only(ctx)
	if err != nil {
		return err
	}
	pid, err := s.pid(ctx, id)
	if err != nil {
		return err
	}
	return wait.For(ctx, time.Minute, "the program to handle TERM", func(context.Context) error {
		// SigCgt is a bit mask of the signals that have a handler, in which signal n is bit n-1
		// (proc(5)).
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			var caught uint64
			if n, _ := fmt.Sscanf(line, "SigCgt: %x", &caught); n == 1 && caught&(1<<(syscall.SIGTERM-1)) != 0 {
				return nil
			}
		}
		return errors.New("it does not yet")
	})
}

// edited is how many pods see a change of a ConfigMap, each of one of its own: upstream's kubelet looks at each pod at
// times of its own.
const edited = 5

// configEdits changes ConfigMaps and measures the time until the volumes of the pods have it.
func configEdits(ctx context.Context, s *side, _ int) error {
	maps := s.w.Client.CoreV1().ConfigMaps(namespace)
	name := func(i int) string { return fmt.Sprintf("%s-%d", s.name, i) }
	for i := range edited {
		c := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Data: map[string]string{"key": "0"}}
		if _, err := maps.Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return err
		}
	}

	b, err := s.start(ctx, edited, func(i int, p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: name(i)}}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "conf", MountPath: "/conf"}}
	})
	if err != nil {
		return err
	}
	edits := 4

	if s.name == peer {
		edits = 1 // it takes its time
	}
	// All ConfigMaps change at once, and each file is timed from its own change.
	for edit := range edits {
		began := make([]time.Time, edited)
		for i := range edited {
			patch := fmt.Appendf(nil, `{"data":{"key":"%d"}}`, edit+1)
			began[i] = time.Now()
			if _, err := maps.Patch(ctx, name(i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		// The next edit waits until every pod has seen this one.
		if err := s.filesChange(ctx, b, began, fmt.Sprint(edit+1)); err != nil {
			return err
		}
	}

	_, err = b.end(ctx)
	for i := range edited {
		err = errors.Join(err, maps.Delete(ctx, name(i), metav1.DeleteOptions{}))
	}
	return err
}

// filesChange waits until the file of each pod has the text.
// began are the times of the edits, by pod. Each file adds a sample of its own.
func (s *side) filesChange(ctx context.Context, b *batch, began []time.Time, text string) error {
	files := make([]string, len(b.names))
	for i, name := range b.names {
		p, err := s.w.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		files[i] = filepath.Join(s.w.KubeletRoot(s.name), "pods", string(p.UID), "volumes", "kubernetes.io~configmap",
			"conf", "key")
	}

	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()

	// A file that has changed is marked by an empty name.
	for left := len(files); left > 0; {
		for i, f := range files {
			if f == "" {
				continue
			}
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if string(data) == text {
				s.add("config", time.Since(began[i]).Seconds())
				files[i] = ""
				left--
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d files did not change: %w", left, ctx.Err())
		case <-tick.C:
		}
	}

	return nil
}
