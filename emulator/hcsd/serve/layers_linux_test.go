package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/wait"
)

// layerHost is hcsd on a C: that is a plain folder, and a connection to it.
type layerHost struct {
	t    *testing.T
	o    Options
	s    *Service
	conn *wire.Conn
}

func startLayerHost(t *testing.T) *layerHost {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	dir := t.TempDir()
	h := &layerHost{t: t, o: Options{Cgroup: "/porthole/layers", HostDir: dir, Template: filepath.Join(dir, "template"),
		CPUs: runtime.NumCPU()}}
	for _, d := range []string{h.o.host().DriveC(), filepath.Join(h.o.Template, "drive_c", "windows"),
		h.o.host().Path("layers"), h.o.host().Path("systems")} {
		check(t, os.MkdirAll(d, 0o755))
	}

	s, err := newService(h.o)
	check(t, err)
	h.s = s
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.accept(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		check(t, <-ended)
		mounts, err := filepath.Glob(filepath.Join(h.o.host().DriveC(), "layers", "*", "Files"))
		check(t, err)
		for _, m := range mounts {
			_ = unix.Unmount(m, unix.MNT_DETACH) // most are no mounts
		}
		check(t, Clean(context.Background(), h.o.HostDir, ""))
	})

	tcp, err := net.Dial("tcp4", listener.Addr().String())
	check(t, err)
	h.conn, err = wire.NewConn(tcp, 1, "test")
	check(t, err)
	return h
}

// call makes one call of vmcompute.dll.
func (h *layerHost) call(function, subject, document string) (string, error) {
	_, text, err := h.conn.Call(wire.Request{Op: wire.HCS, Text: [3]string{function, subject, document}})
	return text, err
}

// must fails the test if a call does.
func (h *layerHost) must(function, subject string, document ...string) string {
	h.t.Helper()
	text, err := h.call(function, subject, strings.Join(document, "\n"))
	if err != nil {
		h.t.Fatalf("%s %s: %v", function, subject, err)
	}
	return text
}

// refused reports whether a call fails with the code.
func (h *layerHost) refused(want *hcsd.Error, function, subject string, document ...string) {
	h.t.Helper()
	_, err := h.call(function, subject, strings.Join(document, "\n"))
	var e *wire.HRESULT
	if !errors.As(err, &e) || e.Code != want.Code {
		h.t.Errorf("%s %s: %v, want %v", function, subject, err, want)
	}
}

// write makes a file below C:.
func (h *layerHost) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.o.host().DriveC(), name)
	check(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(h.t, os.WriteFile(path, []byte(text), 0o644))
}

// backup is a file of an import folder: attributes, and one stream.
func backup(id uint32, data string) string {
	b := binary.LittleEndian.AppendUint32([]byte{0x20, 0, 0, 0}, id)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	return string(binary.LittleEndian.AppendUint32(b, 0)) + data
}

// linkTo is the reparse point of a link that is relative.
func linkTo(target string) string {
	var text []byte
	for _, r := range target {
		text = append(text, byte(r), 0)
	}
	b := []byte{0x0c, 0, 0, 0xa0, 0, 0, 0, 0, 0, 0}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return string(b) + "\x00\x00\x00\x00\x01\x00\x00\x00" + string(text)
}

// tree lists the files below a folder with what is in them, and links with where they lead.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		if target, err := os.Readlink(path); err == nil {
			list = append(list, name+" -> "+target)
			return nil
		}
		data, err := os.ReadFile(path)
		list = append(list, name+"="+string(data))
		return err
	}))
	return list
}

// TestLayers imports two layers over a base as hcsshim does, which deletes files in the layer's folder afterwards, and
// looks at the C: that they make together.
func TestLayers(t *testing.T) {
	h := startLayerHost(t)
	h.write("layers/1/Files/keep.txt", "base")
	h.write("layers/1/Files/gone.txt", "base")
	h.write("layers/1/Files/data/a.txt", "base")
	h.write("layers/1/Files/old/b.txt", "base")
	h.must("ProcessBaseImage", `C:\layers\1`)

	h.write("tmp/hcs1/Files/data/c.txt", backup(1, "second"))
	h.write("tmp/hcs1/Files/data.$wcidirs$", backup(3, "acl"))
	h.write("tmp/hcs1/Files/passing.txt", backup(1, "second"))
	h.write("tmp/hcs1/Files/link", backup(8, linkTo(`data\c.txt`)))
	h.write("tmp/hcs1/Hives/Software_Delta", "hive")
	h.write("layers/2/note", "")
	h.must("ImportLayer", `C:\layers\2`, `C:\tmp\hcs1`, `C:\layers\1`)
	second := filepath.Join(h.o.host().DriveC(), "layers", "2")
	check(t, os.Remove(filepath.Join(second, "Files", "gone.txt")))
	check(t, os.RemoveAll(filepath.Join(second, "Files", "old"))) // and made again: an opaque folder
	check(t, os.Mkdir(filepath.Join(second, "Files", "old"), 0o755))
	check(t, os.Link(filepath.Join(second, "Files", "passing.txt"), filepath.Join(second, "Files", "hard.txt")))

	h.write("tmp/hcs2/Files/keep.txt", backup(1, "third"))
	h.write("layers/3/note", "")
	h.must("ImportLayer", `C:\layers\3`, `C:\tmp\hcs2`, `C:\layers\2`, `C:\layers\1`)
	check(t, os.Remove(filepath.Join(h.o.host().DriveC(), "layers", "3", "Files", "passing.txt")))
	h.write("layers/9/sandbox.vhdx", "disk")
	h.must("ActivateLayer", `C:\layers\9`)
	h.must("PrepareLayer", `C:\layers\9`, `C:\layers\3`, `C:\layers\2`, `C:\layers\1`)

	volume := h.must("GetLayerMountPath", `C:\layers\9`)
	id, ok := hcsd.LayerOfVolume(volume)
	if !ok {
		t.Fatal(volume)
	}
	want := []string{"data/a.txt=base", "data/c.txt=second", "hard.txt=second", "keep.txt=third", "link -> data/c.txt"}
	if got := tree(t, h.o.host().MergedDir(id)); !slices.Equal(got, want) {
		t.Errorf("C: has %q, want %q", got, want)
	}
	if got := tree(t, filepath.Join(second, "Hives")); !slices.Equal(got, []string{"Software_Delta=hive"}) {
		t.Errorf("hives: %q", got)
	}

	// A layer is known by its folder, whatever it is called by then.
	h.must("UnprepareLayer", `C:\layers\9`)
	h.refused(hcsd.ErrNotReady, "GetLayerMountPath", `C:\layers\9`)
	for _, n := range []string{"9", "3", "2", "1"} {
		path := filepath.Join(h.o.host().DriveC(), "layers")
		check(t, os.Rename(filepath.Join(path, n), filepath.Join(path, "rm-"+n)))
		h.must("DestroyLayer", `C:\layers\rm-`+n)
	}
	h.must("DestroyLayer", `C:\layers\rm-9`)
	for _, dir := range []string{h.o.host().Path("layers"), filepath.Join(h.o.host().DriveC(), "layers")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// TestFaults: calls go wrong as the rules say, and are counted.
func TestFaults(t *testing.T) {
	h := startLayerHost(t)
	set := func(rules string) int {
		w := httptest.NewRecorder()
		h.s.controls().ServeHTTP(w, httptest.NewRequest("POST", "/faults", strings.NewReader(rules)))
		return w.Code
	}
	for _, bad := range []string{`[{"action":"explode"}]`, `[{"action":"empty"}]`, `[{"action":"fail"}]`, `[null]`,
		`{}`, `[{"x":1}]`} {
		if code := set(bad); code != 400 {
			t.Errorf("%s: %d", bad, code)
		}
	}

	set(
		`[{"function":"Activate*","match":"layers.1","action":"fail","code":2147942421},{"function":"LayerExists","delayMs":1,"action":"after","code":2147942405}]`)
	h.write("layers/1/sandbox.vhdx", "")
	h.write("layers/2/sandbox.vhdx", "")
	h.refused(hcsd.ErrNotReady, "ActivateLayer", `C:\layers\1`)
	h.must("ActivateLayer", `C:\layers\2`)
	h.refused(hcsd.ErrAccessDenied, "LayerExists", `C:\layers\2`)
	if st := h.s.calls.Get(); st.Calls["ActivateLayer"] != 2 || st.Errors["ActivateLayer"] != 1 ||
		st.Programs["test"]["LayerExists"] != 1 {
		t.Errorf("%+v", st)
	}

	set(`[{"function":"LayerExists","action":"hang"}]`)
	answered := make(chan error, 1)
	go func() { _, err := h.call("LayerExists", `C:\layers\2`, ""); answered <- err }()
	wait.True(t, 10*time.Second, "the call hangs", func() bool { return h.s.faults.List()[0].Hits == 1 })
	select {
	case err := <-answered:
		t.Errorf("a call that hangs is answered: %v", err)
	default:
	}
	set(`[]`)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	set(`[{"function":"DestroyLayer","action":"mute"}]`)
	go func() { _, err := h.call("DestroyLayer", `C:\layers\1`, ""); answered <- err }()
	wait.True(t, 10*time.Second, "the layer is gone",
		func() bool { _, err := os.Lstat(filepath.Join(h.o.host().DriveC(), "layers", "1")); return err != nil })
	select {
	case err := <-answered:
		t.Errorf("a call that is mute is answered: %v", err)
	default:
	}
	set(`[]`)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	set(`[{"function":"LayerExists","action":"drop"}]`)
	if _, err := h.call("LayerExists", `C:\layers\2`, ""); !errors.Is(err, io.EOF) {
		t.Errorf("a call whose connection is dropped: %v", err)
	}
}

// TestHostileLayers: nothing outside of a layer is written, read or removed, whatever paths, links, and files are
// given.
func TestHostileLayers(t *testing.T) {
	h := startLayerHost(t)
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "precious"), []byte("kept"), 0o644))
	h.write("layers/1/Files/a", "base")
	check(t, os.Symlink(outside, filepath.Join(h.o.host().DriveC(), "out")))
	check(t, os.Symlink(outside, filepath.Join(h.o.host().DriveC(), "layers", "1", "link")))

	for _, path := range []string{`C:\out`, `C:\layers\1\link`, `C:\out\x`} {
		for _, function := range []string{"ProcessBaseImage", "ActivateLayer", "UnprepareLayer", "GetLayerMountPath"} {
			if _, err := h.call(function, path, ""); err == nil {
				t.Errorf("%s %s is done", function, path)
			}
		}
	}
	h.refused(hcsd.ErrAccessDenied, "DestroyLayer", `C:\out`)
	h.refused(hcsd.ErrInvalidArgument, "DestroyLayer", `C:\layers\..\..\x`)
	h.refused(hcsd.ErrAccessDenied, "DestroyLayer", `C:\`)

	// An import folder with links of Linux, which a program under Wine can make, and names that are none of Windows.
	h.write("layers/2/note", "")
	check(t, os.MkdirAll(filepath.Join(h.o.host().DriveC(), "tmp/in/Files"), 0o755))
	check(t, os.Symlink(filepath.Join(outside, "precious"), filepath.Join(h.o.host().DriveC(), "tmp/in/Files/stolen")))
	h.refused(hcsd.ErrInvalidData, "ImportLayer", `C:\layers\2`, `C:\tmp\in`, `C:\layers\1`)
	h.refused(hcsd.ErrAccessDenied, "ImportLayer", `C:\layers\2`, `C:\out`, `C:\layers\1`)

	// A link that leads out as seen from Linux stays in the container, and the files under its name are not written
	// through it.
	h.write("layers/3/note", "")
	h.write("tmp/up/Files/up", backup(8, linkTo(`..\..\..\..\..\..\..\..`+strings.ReplaceAll(outside, "/", `\`))))
	h.write("tmp/up/Files/dir.$wcidirs$", backup(8, linkTo(`..\..\..`)))
	h.write("tmp/up/Files/dir/precious", backup(1, "overwritten"))
	if _, err := h.call("ImportLayer", `C:\layers\3`, `C:\tmp\up`+"\n"+`C:\layers\1`); err == nil {
		for _, line := range tree(t, filepath.Join(h.o.host().DriveC(), "layers", "3", "Files")) {
			if strings.Contains(line, "-> /") || strings.Contains(line, "-> ..") {
				t.Errorf("a link leads out of C:: %s", line)
			}
		}
	}

	// A marker is not believed.
	h.write("layers/4/hcs-layer", "../../../../"+outside)
	h.write("layers/4/sandbox.vhdx", "")
	h.must("ActivateLayer", `C:\layers\4`)
	h.must("DestroyLayer", `C:\layers\4`)
	if got := tree(t, outside); !slices.Equal(got, []string{"precious=kept"}) {
		t.Errorf("outside: %q", got)
	}
}
