package runtime

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// archive writes files into a tar: names that end with a slash are folders.
type archive struct {
	t   *testing.T
	out bytes.Buffer
	w   *tar.Writer
}

func newArchive(t *testing.T) *archive {
	a := &archive{t: t}
	a.w = tar.NewWriter(&a.out)
	return a
}

func (a *archive) add(name string, content []byte) {
	a.t.Helper()
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)),
		ModTime: time.Unix(0, 0)}
	if strings.HasSuffix(name, "/") {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
	}
	check(a.t, a.w.WriteHeader(h))
	_, err := a.w.Write(content)
	check(a.t, err)
}

func (a *archive) bytes() []byte {
	a.t.Helper()
	check(a.t, a.w.Close())
	return a.out.Bytes()
}

// layerOf makes a layer of Windows' form of what is below C:. A name alone is a whiteout or a folder.
func layerOf(t *testing.T, entries ...string) []byte {
	a := newArchive(t)
	a.add("Files/", nil)
	a.add("Hives/", nil)
	for _, e := range entries {
		name, content, _ := strings.Cut(e, "=")
		a.add("Files/"+name, []byte(content))
	}
	return a.bytes()
}

// imageOf makes an archive of an image with these layers, as `ctr images import` wants it (image-layout.md of OCI).
func imageOf(t *testing.T, name string, config v1.ImageConfig, layers ...[]byte) []byte {
	a := newArchive(t)
	a.add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	keep := func(mediaType string, content []byte) v1.Descriptor {
		d := digest.FromBytes(content)
		a.add("blobs/sha256/"+d.Encoded(), content)
		return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(content))}
	}
	encoded := func(v any) []byte {
		data, err := json.Marshal(v)
		check(t, err)
		return data
	}

	platform := v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: "10.0.20348.3695"}
	image := v1.Image{Platform: platform, Config: config, RootFS: v1.RootFS{Type: "layers"}}
	manifest := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	for _, l := range layers {
		manifest.Layers = append(manifest.Layers, keep(v1.MediaTypeImageLayer, l))
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, digest.FromBytes(l))
	}
	manifest.Config = keep(v1.MediaTypeImageConfig, encoded(image))
	d := keep(v1.MediaTypeImageManifest, encoded(manifest))
	d.Platform, d.Annotations = &platform, map[string]string{"io.containerd.image.name": name}
	a.add("index.json", encoded(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []v1.Descriptor{d}}))
	return a.bytes()
}

// importImage has ctr.exe import an archive, and returns its error.
func (w containers) importImage(t *testing.T, name string, archive []byte) {
	t.Helper()
	w.write("image.tar", string(archive))
	w.must("run", w.name, "--", `C:\Program Files\containerd\ctr.exe`, "--namespace", "k8s.io", "images", "import",
		"--snapshotter", "windows", `C:\image.tar`)
	wait.True(t, 30*time.Second, "CRI knows the image", func() bool {
		r, err := w.images.ImageStatus(call(t),
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		return err == nil && r.Image != nil
	})
}

// testLayers runs an image of three layers, of which the upper ones replace, delete and add what is below.
func (w containers) testLayers(t *testing.T) {
	const name = "docker.io/porthole/layers:1"
	program, err := os.ReadFile(filepath.Join(filepath.Dir(w.porthole), "bundle", "images", "windows", "testapp.exe"))
	check(t, err)
	w.importImage(t, name, imageOf(t, name,
		v1.ImageConfig{Entrypoint: []string{`C:\testapp.exe`}, Cmd: []string{"serve"}, WorkingDir: `C:\`},
		layerOf(t, "testapp.exe="+string(program), "kept.txt=kept", "replaced.txt=old", "gone.txt=x", "folder/",
			"folder/a.txt=a", "folder/b.txt=b", "tree/", "tree/deep/", "tree/deep/x.txt=x", "swap=file"),
		layerOf(t, "replaced.txt=new", ".wh.gone.txt=", "folder/", "folder/.wh.a.txt=", "folder/c.txt=c", ".wh.tree="),
		layerOf(t, "top.txt=top", "tree/", "tree/new.txt=new", "folder/", "folder/.wh.c.txt=", ".wh.swap=")))
	w.write("var/log/pods/layers/.keep", "")
	p := w.runPod(t, "layers")
	id := w.run(t, p, asked{name: "layers", image: name}, "serving HTTP")

	got := strings.Fields(w.shell(t, id, `for %f in (kept replaced top) do @type C:\%f.txt & echo.`))
	if strings.Join(got, "") != "keptnewtop" {
		t.Errorf("files have %q", got)
	}
	got = strings.Fields(w.shell(t, id, `dir /b /s C:\folder C:\tree C:\gone.txt C:\swap 2>nul & ver >nul`))
	if strings.Join(got, " ") != `C:\folder\b.txt C:\tree\new.txt` {
		t.Errorf("the folders have %q", got)
	}
	if err := w.removePod(p); err != nil {
		t.Error(err)
	}
	w.testNothingLeft(t)
	if _, err := w.images.RemoveImage(call(t),
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: name}}); err != nil {
		t.Error(err)
	}
	wait.True(t, 30*time.Second, "the layers are removed", func() bool { return len(w.layerFiles("kept.txt")) == 0 })
}
