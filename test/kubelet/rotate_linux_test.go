package kubelet

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// withConfig runs a test with a kubelet that has additional configuration.
func withConfig(test func(*testing.T, *world), config map[string]any) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		restart := func(config map[string]any) {
			w.kubelet.Stop()
			w.KubeletConfig = config
			w.startKubelet()
		}
		restart(config)
		defer restart(nil)
		test(t, w)
	}
}

const (
	rotatedAt   = "32Ki"
	keptLogs    = 3
	rotations   = 5
	linesAtOnce = 200
	lastLine    = "that is all"
)

// testRotation: while a container writes and a client follows, the log is rotated repeatedly. No line is lost, there
// are never more files than configured, and old files are compressed.
func testRotation(t *testing.T, w *world) {
	// the container prints what the test writes into a pipe
	dir := w.Path("talk")
	must(t, os.MkdirAll(dir, 0o755))
	pipe := filepath.Join(dir, "pipe")
	must(t, unix.Mkfifo(pipe, 0o666))
	p := newPod("talks", "cat", "/talk/pipe")
	p.Spec.Volumes = []v1.Volume{{Name: "talk",
		VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "talk", MountPath: "/talk"}}
	w.create(t, p)
	made := w.until(t, 30*time.Second, p.Name, ready)
	in, err := os.OpenFile(pipe, os.O_RDWR, 0) // for writing only, this would wait for the container
	must(t, err)
	defer in.Close()
	must(t, in.SetDeadline(time.Now().Add(2*time.Minute)))

	followed := make(chan error, 1)
	go func() { followed <- w.follow(p.Name) }()
	logs := filepath.Join(w.podLogs(made), "app")
	lines := 0
	for range rotations {
		before := newest(logs)
		must(t, wait.For(w.ctx, 30*time.Second, "the log to be put aside", func(context.Context) error {
			names := logFiles(logs)
			if len(names) > keptLogs {
				t.Fatalf("too many logs: %v", names)
			}
			if newest(logs) != before {
				return nil
			}
			// write until the runtime has opened the new log: before that it writes to the old one
			var b strings.Builder
			for range linesAtOnce {
				fmt.Fprintf(&b, "line %d\n", lines)
				lines++
			}
			_, err := io.WriteString(in, b.String())
			must(t, err)
			return fmt.Errorf("after %d lines there are %v", lines, names)
		}))
	}
	_, err = io.WriteString(in, lastLine+"\n")
	must(t, err)
	select {
	case err := <-followed:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Error("who follows the log has not seen all of it")
	}
	var names []string
	must(t, wait.For(w.ctx, 20*time.Second, "the logs at rest", func(context.Context) error {
		names = logFiles(logs)
		if len(names) != keptLogs || names[0] != "0.log" || !strings.HasSuffix(names[1], ".gz") ||
			strings.HasSuffix(names[2], ".gz") {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	}))
	if lines, err := compressedLines(filepath.Join(logs, names[1])); err != nil || lines == 0 {
		t.Errorf("%s: %d lines, %v", names[1], lines, err)
	}
	must(t, in.Close())
	w.remove(t, p.Name, nil)
	w.untilGone(t, p.Name)
}

// logFiles returns the names of the log files of a container.
func logFiles(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".tmp") { // a compression at work
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	// while a file is compressed, both versions exist for a moment
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(names, n+".gz") })
}

// newest returns the log that was rotated last, or "" if there is none.
func newest(dir string) string {
	names := logFiles(dir)
	if len(names) < 2 {
		return ""
	}
	return strings.TrimSuffix(names[len(names)-1], ".gz")
}

func compressedLines(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(zip)
	return strings.Count(string(text), "\n"), err
}

// follow reads the log of a pod while it grows, up to the last line. It returns an error if a line is missing.
func (w *world) follow(pod string) error {
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet,
		kubeletURL+"containerLogs/"+namespace+"/"+pod+"/app?follow=true", nil)
	if err != nil {
		return err
	}
	resp, err := w.http().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text := bufio.NewScanner(resp.Body)
	for n := 0; text.Scan(); n++ {
		if text.Text() == lastLine {
			return nil
		}
		if want := fmt.Sprintf("line %d", n); text.Text() != want {
			return fmt.Errorf("the log says %q, want %q", text.Text(), want)
		}
	}
	return errors.Join(errors.New("the log ended before its last line"), text.Err())
}

// testImageGC: if the disk counts as full, images are removed that no container uses. The images of sandboxes and of
// running pods are kept.
func testImageGC(t *testing.T, w *world) {
	const used, unused = "testkit.local/used:1", "testkit.local/unused:1"
	must(t, errors.Join(w.ImportOther(w.ctx, used), w.ImportOther(w.ctx, unused)))
	p := newPod("uses", "sleep")
	p.Spec.Containers[0].Image = used
	w.create(t, p)
	w.until(t, 30*time.Second, p.Name, ready)

	collect := func(t *testing.T, w *world) {
		must(t, wait.For(w.ctx, 30*time.Second, "the unused image to go", func(ctx context.Context) error {
			images, err := w.imageNames(ctx)
			if err == nil && slices.Contains(images, unused) {
				err = fmt.Errorf("there are %v", images)
			}
			return err
		}))
		must(t, wait.For(w.ctx, 20*time.Second, "the images in the node's status", func(ctx context.Context) error {
			n, err := w.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(n.Status.Images,
				func(i v1.ContainerImage) bool { return slices.Contains(i.Names, used) && i.SizeBytes > 0 }) {
				err = fmt.Errorf("there are %v", n.Status.Images)
			}
			return err
		}))
		w.untilEvent(t, node, "FreeDiskSpaceFailed") // one percent of the disk cannot be freed
	}

	withConfig(collect, map[string]any{"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0,
		"imageMinimumGCAge": "1s"})(t, w)
	images, err := w.imageNames(w.ctx)
	must(t, err)
	if !slices.Contains(images, used) {
		t.Errorf("the image of a pod that runs is gone: %v", images)
	}

	must(t, w.ImportTestImage(w.ctx, testkit.TestImage)) // it was not in use
	w.create(t, newPod("after", "sleep"))                // a sandbox can still be created
	w.until(t, 30*time.Second, "after", ready)
	for _, name := range []string{"after", p.Name} {
		w.remove(t, name, nil)
		w.untilGone(t, name)
	}
}

func (w *world) imageNames(ctx context.Context) (names []string, err error) {
	list, err := w.Images.ListImages(ctx, &cri.ListImagesRequest{})
	for _, i := range list.GetImages() {
		names = append(names, i.RepoTags...)
	}
	return names, err
}
