package storagedriver

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// newController returns the CSI controller service of a new driver, which keeps its volumes in a temporary folder.
func newController(t *testing.T) *controller {
	t.Helper()
	d, err := New(Options{Name: "d.example.com", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return &controller{Driver: d}
}

// request asks for a volume that is a copy of source, if that is not empty.
func request(name, source string, bytes int64, block bool) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}}
	if source != "" {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source}}}
	}
	if block {
		r.VolumeCapabilities = []*csi.VolumeCapability{
			{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}}
	}
	return r
}

func create(t *testing.T, d *controller, r *csi.CreateVolumeRequest) string {
	t.Helper()
	out, err := d.CreateVolume(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out.Volume.VolumeId
}

func TestCopyOfFolder(t *testing.T) {
	d := newController(t)
	source := create(t, d, request("source", "", 1000, false))
	from := d.folder(source)
	for _, do := range []error{
		os.Chmod(from, 0o770|os.ModeSetgid),
		os.MkdirAll(filepath.Join(from, "a", "b"), 0o750),
		os.WriteFile(filepath.Join(from, "a", "b", "file"), []byte("text"), 0o640),
		os.Symlink("a/b/file", filepath.Join(from, "link")),
	} {
		if do != nil {
			t.Fatal(do)
		}
	}

	id := create(t, d, request("copy", source, 2000, false))
	if again := create(t, d, request("copy", source, 2000, false)); again != id {
		t.Errorf("asked twice: %s, then %s", id, again)
	}
	if err := os.WriteFile(filepath.Join(from, "a", "b", "file"), []byte("later"), 0o640); err != nil {
		t.Fatal(err)
	}
	to := d.folder(id)
	if text, err := os.ReadFile(filepath.Join(to, "link")); err != nil || string(text) != "text" {
		t.Errorf("read through the link: %q, %v", text, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{"", "a/b", "a/b/file", "link"} {
		want, err := os.Lstat(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(filepath.Join(to, name)); err != nil || info.Mode() != want.Mode() {
			t.Errorf("%q has mode %v, want %v (%v)", name, info.Mode(), want.Mode(), err)
		}
	}
}

func TestCopyOfRawDevice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices are asked for their files")
	}
	d := newController(t)
	source := create(t, d, request("source", "", 1<<20, true))
	f, err := os.OpenFile(d.folder(source)+".img", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	f.Close()

	id := create(t, d, request("copy", source, 2<<20, true))
	data, err := os.ReadFile(d.folder(id) + ".img")
	if err != nil || len(data) != 2<<20 || string(data[:4]) != "text" {
		t.Errorf("the copy has %d bytes, and %v", len(data), err)
	}
}

func TestNoCopy(t *testing.T) {
	d := newController(t)
	source := create(t, d, request("source", "", 1000, false))
	create(t, d, request("other", "", 1000, false))
	for _, one := range []struct {
		name    string
		request *csi.CreateVolumeRequest
		want    codes.Code
	}{
		{"of nothing", request("copy", "missing", 1000, false), codes.NotFound},
		{"smaller", request("copy", source, 999, false), codes.OutOfRange},
		{"a raw device of a folder", request("copy", source, 1000, true), codes.InvalidArgument},
		{"of a snapshot", &csi.CreateVolumeRequest{Name: "copy", VolumeContentSource: &csi.VolumeContentSource{
			Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: "s"}}}}, codes.InvalidArgument},
		{"a volume that was made empty", request("other", source, 1000, false), codes.AlreadyExists},
	} {
		if _, err := d.CreateVolume(t.Context(), one.request); status.Code(err) != one.want {
			t.Errorf("%s: %v, want %v", one.name, err, one.want)
		}
	}
	if n := len(d.Volumes()); n != 2 {
		t.Errorf("%d volumes, want 2", n)
	}
}
