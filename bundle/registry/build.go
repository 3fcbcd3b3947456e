package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Windows builds that our images are made for. The revision is one that Microsoft shipped; a host compares the build
// only.
var windowsVersions = []struct{ tag, version string }{
	{"ltsc2019", "10.0.17763.7314"},
	{"ltsc2022", "10.0.20348.3695"},
	{"ltsc2025", "10.0.26100.4061"},
	{oldTag, "10.0.16299.15"},
}

// oldTag is an image that no node can run; it stays out of the index of all builds.
const oldTag = "1709"

// image is one image to make: a program, where it lies in the image and how it is started.
// args are the default arguments; linuxDir is needed where a program or a volume expects a folder,
// as a layer has nothing else.
type image struct {
	name     string
	entry    string // file name in the image without .exe
	args     []string
	linux    string // program file below the programs folder; empty: none
	windows  string
	linuxDir []string // empty folders of the Linux variant
}

// Images without a Windows program have variants for Linux only.
var images = []image{
	{name: "porthole/pause", entry: "pause", linux: "images/linux/pause", windows: "images/windows/pause.exe"},
	{name: "porthole/testapp", entry: "testapp", args: []string{"serve"}, linux: "images/linux/testapp",
		windows: "images/windows/testapp.exe", linuxDir: []string{"tmp", "etc"}},
	{name: "porthole/coredns", entry: "coredns", linux: "coredns", linuxDir: []string{"etc", "etc/coredns"}},
}

// buildAll makes every image of ours. The same programs give the same digests.
func buildAll(s store, programs string) error {
	for _, i := range images {
		if err := i.build(s, programs); err != nil {
			return fmt.Errorf("building image %s: %w", i.name, err)
		}
	}
	return nil
}

// build writes the image under three kinds of tags: "linux", one for each build of Windows, and "1" for all variants
// together, as images for several systems are published. The variant of oldTag is not among those of "1".
func (i image) build(s store, programs string) error {
	var all []v1.Descriptor
	if i.linux != "" {
		layer, err := layer(filepath.Join(programs, i.linux), i.entry, i.linuxDir)
		if err != nil {
			return err
		}
		config := v1.ImageConfig{
			Entrypoint: []string{"/" + i.entry}, Cmd: i.args, WorkingDir: "/",
			Env: []string{"PATH=/:/bin:/usr/bin", "PORTHOLE_IMAGE=" + i.name + ":1"},
		}
		d, err := i.variant(s, v1.Platform{Architecture: "amd64", OS: "linux"}, config, layer)
		if err != nil {
			return err
		}
		all = append(all, d)
		if err := i.index(s, "linux", []v1.Descriptor{d}); err != nil {
			return err
		}
	}

	if i.windows != "" {
		layer, err := windowsLayer(filepath.Join(programs, i.windows), i.entry+".exe")
		if err != nil {
			return err
		}
		config := v1.ImageConfig{
			Entrypoint: []string{`C:\` + i.entry + ".exe"}, Cmd: i.args, WorkingDir: `C:\`, User: "ContainerUser",
			Env: []string{`PATH=C:\Windows\system32;C:\Windows;C:\`, "PORTHOLE_IMAGE=" + i.name + ":1"},
		}
		for _, w := range windowsVersions {
			// The slice is clipped, so that each version gets a variable of its own.
			config := config
			config.Env = append(config.Env[:len(config.Env):len(config.Env)], "PORTHOLE_IMAGE_BUILD="+w.version)
			d, err := i.variant(s, v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: w.version}, config,
				layer)
			if err != nil {
				return err
			}
			if w.tag != oldTag {
				all = append(all, d)
			}
			if err := i.index(s, w.tag, []v1.Descriptor{d}); err != nil {
				return err
			}
		}
	}
	return i.index(s, "1", all)
}

// variant stores an image for one platform and returns its descriptor.
func (i image) variant(s store, p v1.Platform, config v1.ImageConfig, layer []byte) (v1.Descriptor, error) {
	compressed, err := compress(layer)
	if err != nil {
		return v1.Descriptor{}, err
	}

	layerDesc, err := keep(s, v1.MediaTypeImageLayerGzip, compressed)
	if err != nil {
		return v1.Descriptor{}, err
	}

	// The time is zero, as in layers, so that the digest depends on the content only.
	created := time.Unix(0, 0).UTC()
	content, err := json.Marshal(v1.Image{
		Created: &created, Platform: p, Config: config,
		// The ID of a layer in the configuration is the digest of its uncompressed content; the
		// manifest has that of the compressed one.
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
	})
	if err != nil {
		return v1.Descriptor{}, err
	}

	configDesc, err := keep(s, v1.MediaTypeImageConfig, content)
	if err != nil {
		return v1.Descriptor{}, err
	}

	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: configDesc,
		Layers: []v1.Descriptor{layerDesc},
	})
	if err != nil {
		return v1.Descriptor{}, err
	}

	d, err := s.putManifest(i.name, "", v1.MediaTypeImageManifest, manifest)
	return v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: d, Size: int64(len(manifest)), Platform: &p}, err
}

// index stores a list of variants under a tag, in the place of an older one.
func (i image) index(s store, tag string, of []v1.Descriptor) error {
	index, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex,
		Manifests: of})
	if err != nil {
		return err
	}
	_, err = s.putManifest(i.name, tag, v1.MediaTypeImageIndex, index)
	return err
}

// keep stores content as a blob and describes it.
func keep(s store, mediaType string, content []byte) (v1.Descriptor, error) {
	d, n, err := s.putBlob(bytes.NewReader(content), digest.FromBytes(content))
	return v1.Descriptor{MediaType: mediaType, Digest: d, Size: n}, err
}

// compress gives the same bytes for the same content: gzip's header has no time and no name here.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// windowsLayer returns a layer in the format of Windows: files below Files, and changes to the registry below Hives.
// Our images change nothing there.
func windowsLayer(program, entry string) ([]byte, error) {
	return layer(program, "Files/"+entry, []string{"Files", "Hives"})
}

// layer returns a layer with a program and empty folders. All times are zero, so that the digest of the same content
// is always the same.
func layer(program, at string, dirs []string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("reading the program (has `make bundle` run?): %w", err)
	}

	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, d := range dirs {
		mode := int64(0o755)
		if d == "tmp" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimSuffix(d, "/") + "/", Mode: mode,
			ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
	}

	h := &tar.Header{Typeflag: tar.TypeReg, Name: at, Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(0, 0)}
	if err := w.WriteHeader(h); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}

	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
