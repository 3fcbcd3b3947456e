package runtime

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

const faultyImage = "docker.io/porthole/faulty:1"

// tryImport has ctr.exe import an image of one layer and returns what it printed and its error.
func (w faultCases) tryImport(t *testing.T, layer []byte) (string, error) {
	t.Helper()
	w.write("image.tar", string(imageOf(t, faultyImage, v1.ImageConfig{Entrypoint: []string{`C:\testapp.exe`}}, layer)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.porthole, "host", "run", "--dir", w.dir, w.name, "--",
		`C:\Program Files\containerd\ctr.exe`, "--namespace", "k8s.io",
		"images", "import", "--snapshotter", "windows", `C:\image.tar`)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// forget removes the image, if there is one, and waits until containerd has no more snapshots and folders of layers
// than before.
func (w faultCases) forget(t *testing.T, before []string) {
	t.Helper()
	if _, err := w.images.RemoveImage(call(t),
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: faultyImage}}); err != nil {
		t.Error(err)
	}
	wait.NoError(t, time.Minute, "nothing of the image is left", func() error {
		if more := slices.DeleteFunc(w.snapshots(t),
			func(s string) bool { return slices.Contains(before, s) }); len(more) > 0 {
			return fmt.Errorf("left: %v", more)
		}
		return nil
	})
}

const snapshotsFolder = "ProgramData/containerd/root/io.containerd.snapshotter.v1.windows/snapshots"

// snapshots are containerd's, as it lists them and as folders.
func (w faultCases) snapshots(t *testing.T) (all []string) {
	t.Helper()
	folders, err := os.ReadDir(filepath.Join(w.driveC(), snapshotsFolder))
	check(t, err)
	for _, f := range folders {
		all = append(all, "folder "+f.Name())
	}
	for line := range strings.Lines(w.must("ctr", w.name, "snapshots")) {
		if fields := strings.Fields(line); len(fields) > 0 {
			all = append(all, fields[0])
		}
	}
	return all
}

// testFullDisk imports a layer for which the disk has no room. The error says so, nothing is left, and with room it
// works.
func (w faultCases) testFullDisk(t *testing.T) {
	folder := filepath.Join(w.driveC(), snapshotsFolder)
	command(t, nil, "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder)
	t.Cleanup(func() { check(t, platform.Detach(folder)) })
	before := w.snapshots(t)
	layer := layerOf(t, "testapp.exe=x", "large.bin="+strings.Repeat("0123456789abcdef", 8<<20/16))

	out, err := w.tryImport(t, layer)
	if err == nil || !strings.Contains(out, "not enough space on the disk") {
		t.Errorf("an import into a full disk: %v\n%s", err, out)
	}
	w.forget(t, before)
	command(t, nil, "mount", "-o", "remount,size=64m", folder)
	if out, err := w.tryImport(t, layer); err != nil {
		t.Errorf("with room: %v\n%s", err, out)
	}
	if found := w.layerFiles("large.bin"); len(found) != 1 {
		t.Errorf("the layer's file is at %v", found)
	}
	w.forget(t, before)
}

// testBadLayers imports layers that are broken, or that name places outside of themselves. They are refused, nothing
// outside is written or changed, nothing is left, and pods run.
func (w faultCases) testBadLayers(t *testing.T) {
	w.write("precious/kept.txt", "kept")

	whole := layerOf(t, "testapp.exe="+strings.Repeat("x", 64<<10))
	tarOf := func(headers ...tar.Header) []byte {
		var out bytes.Buffer
		a := tar.NewWriter(&out)
		for _, h := range headers {
			h.Mode, h.ModTime = 0o644, time.Unix(0, 0)
			if h.Typeflag == 0 {
				h.Typeflag, h.Size = tar.TypeReg, int64(len("evil"))
			}
			check(t, a.WriteHeader(&h))
			if h.Typeflag == tar.TypeReg {
				_, err := a.Write([]byte("evil"))
				check(t, err)
			}
		}
		check(t, a.Close())
		return out.Bytes()
	}

	files, hives := tar.Header{Name: "Files/", Typeflag: tar.TypeDir}, tar.Header{Name: "Hives/", Typeflag: tar.TypeDir}
	for _, c := range []struct {
		name  string
		layer []byte
	}{
		{"cut short", whole[:len(whole)/2]},
		{"no archive", bytes.Repeat([]byte("nonsense"), 512)},
		{"path upwards", tarOf(files, hives,
			tar.Header{Name: "Files/../../../../../../../../../../precious/evil.txt"})},
		{"path with a drive", tarOf(files, hives, tar.Header{Name: `Files/C:\precious\evil.txt`})},
		{"path of its own", tarOf(files, hives, tar.Header{Name: "/precious/evil.txt"})},
		{"link to a folder", tarOf(files, hives,
			tar.Header{Name: "Files/out", Typeflag: tar.TypeSymlink, Linkname: `C:\precious`},
			tar.Header{Name: "Files/out/evil.txt"})},
		{"hard link to a file", tarOf(files, hives,
			tar.Header{Name: "Files/out.txt", Typeflag: tar.TypeLink,
				Linkname: `Files/../../../../../../../../../precious/kept.txt`}, tar.Header{Name: "Files/out.txt"})},
		{"whiteout upwards", tarOf(files, hives,
			tar.Header{Name: "Files/../../../../../../../../../../precious/.wh.kept.txt"})},
	} {

		t.Run(c.name, func(t *testing.T) {
			before := w.snapshots(t)
			out, err := w.tryImport(t, c.layer)
			if err == nil {
				t.Errorf("it is imported: %s", out)
			}
			t.Log(out[max(0, len(out)-250):])
			entries, err := os.ReadDir(filepath.Join(w.driveC(), "precious"))
			kept, errKept := os.ReadFile(filepath.Join(w.driveC(), "precious/kept.txt"))
			if err != nil || errKept != nil || len(entries) != 1 || string(kept) != "kept" {
				t.Errorf("the folder outside has %v, its file %q: %v, %v", entries, kept, err, errKept)
			}
			w.forget(t, before)
		})
	}

	p := w.runPod(t, "bad-layers")
	w.endPod(t, p)
}
