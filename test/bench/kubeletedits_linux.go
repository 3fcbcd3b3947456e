package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// 5,000 edits a minute over 110 pods: each ConfigMap changes every 1.3 s.
const (
	editsAMinute = 5000
	editsLook    = 20 * time.Millisecond // between two looks at all files
)

// editedFile is the file of one pod, and when each of its ConfigMap's edits was made that the file does not have yet.
// Edit n writes n.
type editedFile struct {
	configMap, path string

	mu   sync.Mutex
	made int
	// A file may skip edits: whoever writes it takes the newest. So one look can take several off.
	due []time.Time // of the edits made-len(due)+1 to made
}

// add notes that the next edit is made now, and returns its number.
func (f *editedFile) add() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	f.due = append(f.due, time.Now())
	return f.made
}

// look reads the file once. It returns the longest time from an edit that is in the file since this look until now,
// and how many edits are not in the file yet.
func (f *editedFile) look() (worst time.Duration, left int, err error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return 0, 0, err
	}
	has, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.due) > 0 && f.made-len(f.due)+1 <= has {
		worst = max(worst, time.Since(f.due[0]))
		f.due = f.due[1:]
	}
	return worst, len(f.due), nil
}

// edits changes ConfigMaps in turn for a minute, each of which one of 110 pods has in a volume.
// The peer is not measured: it takes up to a minute for each edit.
func edits(ctx context.Context, s *side, _ int) error {
	if s.name == peer {
		return nil
	}
	files, b, err := editedPods(ctx, s)
	if err != nil {
		return err
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}

	before, err := s.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	// One slot, so that the editor can end when follow has given up.
	editing := make(chan error, 1)
	go func() { editing <- edit(ctx, s, files) }()
	worst, err := follow(ctx, files, editing)
	if err != nil {
		return err
	}
	passed := time.Since(began)
	after, err := s.usage()
	if err != nil {
		return err
	}
	s.add("edits-worst", worst.Seconds())
	s.add("edits-cpu", (after["kubelet"]-before["kubelet"])/passed.Seconds())

	_, err = b.end(ctx)
	return errors.Join(err, s.w.Client.CoreV1().ConfigMaps(namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "bench=edits"}))
}

// edit makes the edits, evenly over a minute.
func edit(ctx context.Context, s *side, files []*editedFile) error {
	tick := time.NewTicker(time.Minute / editsAMinute)
	defer tick.Stop()
	for i := range editsAMinute {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		f := files[i%len(files)]
		patch := fmt.Appendf(nil, `{"data":{"key":"%d"}}`, f.add())
		if _, err := s.w.Client.CoreV1().ConfigMaps(namespace).
			Patch(ctx, f.configMap, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// follow looks at the files until the edits have ended and all of them are there. It returns how late the latest was.
func follow(ctx context.Context, files []*editedFile, editing <-chan error) (worst time.Duration, err error) {
	tick := time.NewTicker(editsLook)
	defer tick.Stop()
	// ended is set once; after that the nil channel is never ready again.
	for ended := false; ; {
		left := 0
		for _, f := range files {
			late, missing, err := f.look()
			if err != nil {
				return 0, err
			}
			worst = max(worst, late)
			left += missing
		}

		if ended && left == 0 {
			return worst, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d edits are in no file: %w", left, ctx.Err())
		case err := <-editing:
			if err != nil {
				return 0, err
			}
			ended, editing = true, nil
		case <-tick.C:
		}
	}
}

// editedPods starts pods with a ConfigMap each in a volume.
func editedPods(ctx context.Context, s *side) (files []*editedFile, b *batch, err error) {
	maps := s.w.Client.CoreV1().ConfigMaps(namespace)
	for i := range restarted {
		f := &editedFile{configMap: fmt.Sprintf("edits-%s-%d", s.name, i)}
		c := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: f.configMap,
			Labels: map[string]string{"bench": "edits"}}, Data: map[string]string{"key": "0"}}
		if _, err := maps.Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}

	b, err = s.start(ctx, restarted, func(i int, p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: files[i].configMap}}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "conf", MountPath: "/conf"}}
	})
	if err != nil {
		return nil, nil, err
	}

	// The files are below the kubelet's root and not in the container: what the container sees is
	// the same folder.
	for i, name := range b.names {
		p, err := s.w.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, err
		}
		files[i].path = filepath.Join(s.w.KubeletRoot(s.name), "pods", string(p.UID), "volumes",
			"kubernetes.io~configmap", "conf", "key")
	}
	return files, b, nil
}
