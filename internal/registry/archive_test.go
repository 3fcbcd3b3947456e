package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	contents "github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// shop puts an image for three builds into a registry; two of them share a layer.
func shop(s *served) {
	var all []v1.Descriptor
	for _, version := range []string{"10.0.17763.1", "10.0.20348.1", "10.0.26100.1"} {
		p := v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: version}
		config := s.put("blobs", "", v1.MediaTypeImageConfig, v1.Image{Platform: p})
		shared := s.put("blobs", "", v1.MediaTypeImageLayerGzip, "shared")
		own := s.put("blobs", "", v1.MediaTypeImageLayerGzip, "layer of "+version)
		d := s.put("manifests", "", v1.MediaTypeImageManifest,
			v1.Manifest{MediaType: v1.MediaTypeImageManifest, Config: config, Layers: []v1.Descriptor{shared, own}})
		d.Platform = &p
		all = append(all, d)
	}
	s.put("manifests", "1", v1.MediaTypeImageIndex, v1.Index{MediaType: v1.MediaTypeImageIndex, Manifests: all})
	single := all[0]
	single.Platform = nil
	s.documents["/v2/shop/app/manifests/single"] = s.documents["/v2/shop/app/manifests/"+single.Digest.String()]
}

func hosts(builds ...winbuild.Build) (out []winbuild.Host) {
	for _, b := range builds {
		out = append(out, winbuild.Host{Version: winbuild.Version{Build: b, Revision: -1}, Architecture: "amd64"})
	}
	return out
}

func selected(t *testing.T, name string, of ...winbuild.Build) (*Selection, error) {
	t.Helper()
	found, err := Find(t.Context(), name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Select(t.Context(), hosts(of...), winbuild.Process)
}

// TestArchive: an archive has what its builds need and nothing else, and containerd reads it.
func TestArchive(t *testing.T) {
	s, host := newServed(t)
	shop(s)
	for _, c := range []struct {
		name   string
		builds []winbuild.Build
		want   string // builds in the archive
		layers int
		whole  bool // the index is the registry's own
	}{
		{"shop/app:1", []winbuild.Build{winbuild.Server2022}, "20348 (Windows Server 2022)", 2, false},
		{"shop/app:1", []winbuild.Build{winbuild.Server2022, winbuild.Server2025},
			"20348 (Windows Server 2022), 26100 (Windows Server 2025)", 3, false},
		{"shop/app:1", []winbuild.Build{winbuild.Server2019, winbuild.Server2022, winbuild.Server2025,
			winbuild.Server2022},
			"17763 (Windows Server 2019), 20348 (Windows Server 2022), 26100 (Windows Server 2025)", 4, true},
		{"shop/app:single", []winbuild.Build{winbuild.Server2019}, "17763 (Windows Server 2019)", 2, true},
	} {
		selection, err := selected(t, host+"/"+c.name, c.builds...)
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		last := int64(0)
		if err := WriteArchive(t.Context(), &file, []*Selection{selection, selection},
			func(done int64) { last = done }); err != nil {
			t.Fatal(err)
		}
		if last != selection.Bytes() || selection.Layers() != c.layers ||
			(selection.Top.Digest == selection.Image.Top.Digest) != c.whole {
			t.Errorf("%v: %d of %d bytes, %d layers, index %s", c.builds, last, selection.Bytes(), selection.Layers(),
				selection.Top.Digest)
		}

		listed, err := ReadArchive(bytes.NewReader(file.Bytes()))
		if err != nil || len(listed) != 2 || listed[0].Name != host+"/"+c.name ||
			winbuild.List(listed[0].Image.Builds()) != c.want {
			t.Errorf("%v: listed %+v, %v", c.builds, listed, err)
		}

		store, err := local.NewStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := archive.ImportIndex(t.Context(), store, bytes.NewReader(file.Bytes())); err != nil {
			t.Errorf("%v: containerd does not read it: %v", c.builds, err)
		}
		blobs := 0
		if err := store.Walk(t.Context(), func(contents.Info) error { blobs++; return nil }); err != nil ||
			blobs < c.layers+3 {
			t.Errorf("%v: %d blobs, %v", c.builds, blobs, err)
		}
	}
}

// TestSelectNothing: an image without a variant for a build is refused by name, with what it is for.
func TestSelectNothing(t *testing.T) {
	s, host := newServed(t)
	shop(s)
	_, err := selected(t, host+"/shop/app:1", winbuild.Server2022, winbuild.Server1803)
	want := "image " + host +
		"/shop/app:1 has nothing for build 17134 (Windows Server, version 1803): it is for Windows builds 17763 (Windows Server 2019), 20348 "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s…", err, want)
	}
	if _, err := selected(t, host+"/shop/app:single", winbuild.Server2022); err == nil ||
		!strings.Contains(err.Error(), "has nothing for build 20348") {
		t.Errorf("an image without an index: %v", err)
	}
}

// TestBrokenLayers: layers that are missing, too short or other than their digest says are errors that name them.
func TestBrokenLayers(t *testing.T) {
	s, host := newServed(t)
	shop(s)
	selection, err := selected(t, host+"/shop/app:1", winbuild.Server2022)
	if err != nil {
		t.Fatal(err)
	}
	layer := selection.layers[1]
	path := "/v2/shop/app/blobs/" + layer.Digest.String()
	good := s.documents[path]
	for what, text := range map[string]string{"short": good.text[:3], "other": strings.Repeat("x", len(good.text)),
		"gone": ""} {
		s.documents[path] = document{good.kind, text}
		if text == "" {
			delete(s.documents, path)
		}
		if err := WriteArchive(context.Background(), io.Discard, []*Selection{selection}, nil); err == nil ||
			!strings.Contains(err.Error(), layer.Digest.String()) || !strings.Contains(err.Error(), "shop/app:1") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReadArchive: what is no archive of images is refused with a reason.
func TestReadArchive(t *testing.T) {
	missing := digest.FromString("x").String()

	for name, c := range map[string]struct{ content, want string }{
		"text":          {strings.Repeat("no archive ", 100), "it is no tar file"},
		"cut off":       {tarOf(t, "index.json", strings.Repeat("x", 5000))[:1500], "incomplete"},
		"no layout":     {tarOf(t, "a", "b"), "it is no OCI image layout"},
		"bad index":     {tarOf(t, "index.json", "{"), "index.json"},
		"no images":     {tarOf(t, "index.json", "{}"), "it has no images"},
		"missing blob":  {tarOf(t, "index.json", `{"manifests":[{"digest":"`+missing+`"}]}`), "is missing"},
		"no digest":     {tarOf(t, "index.json", `{"manifests":[{"digest":"../../etc/passwd"}]}`), "digest"},
		"huge document": {tarOf(t, "index.json", strings.Repeat(" ", maxDocument+1)), "larger than"},
	} {
		if _, err := ReadArchive(strings.NewReader(c.content)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// tarOf is a tar file of names and contents in turn.
func tarOf(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i],
			Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.String()
}

// FuzzReadArchive varies the documents of an archive, and where it is cut off. It makes the tar file around them:
// nearly every change of a tar file ends at a checksum, and the go command takes up to a minute to make each new input
// of some kilobytes smaller.
func FuzzReadArchive(f *testing.F) {
	// of their names only: digests are not compared
	manifest, config := digest.FromString("manifest"), digest.FromString("config")
	one := `{"manifests":[{"digest":"` + manifest.String() + `"}]}`
	f.Add(one, `{"config":{"digest":"`+config.String()+`"}}`, `{"os":"windows","os.version":"10.0.20348.1"}`, 0)
	f.Add(`{"manifests":[{"mediaType":"`+v1.MediaTypeImageIndex+`","digest":"`+manifest.String()+`"}]}`, one, "", 700)

	f.Fuzz(func(t *testing.T, index, first, second string, cut int) {
		file := tarOf(t, "index.json", index, blobName(manifest), first, blobName(config), second)
		file = file[:len(file)-min(max(cut, 0), len(file))]
		list, err := ReadArchive(strings.NewReader(file))
		if err == nil && len(list) == 0 {
			t.Error("no images and no error")
		}
	})
}
