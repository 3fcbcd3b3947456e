package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// imageName is the image of the DaemonSet that `porthole manifests` prints.
const imageName = "porthole/node"

// image writes the container image of a Linux node's programs as an archive in OCI's layout, which `ctr images import`, `skopeo copy` and
// `docker load` read. It holds static programs only.
func (r *release) image() (string, error) {
	var programs []entry
	for _, name := range []string{"porthole", "porthole-routes"} {
		programs = append(programs, entry{name: name, path: filepath.Join(r.root, "bin", name), exec: true})
	}
	more, err := r.described(programs)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: `make build` builds it", err)
	}
	if err != nil {
		return "", err
	}
	for i := range more {
		more[i].name = "usr/share/porthole/" + more[i].name
	}
	entries := append(programs, more...)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })

	var layer bytes.Buffer
	if err := r.writeLayer(&layer, entries); err != nil {
		return "", err
	}
	content, err := r.layout(layer.Bytes())
	if err != nil {
		return "", err
	}
	target := filepath.Join(r.out, "porthole-node-"+r.version+"-linux-amd64.oci.tar")
	return target, os.WriteFile(target, content, 0o644)
}

// writeLayer writes files as the layer of an image.
func (r *release) writeLayer(out *bytes.Buffer, entries []entry) error {
	t := tar.NewWriter(out)
	for _, e := range entries {
		data, err := e.read()
		if err != nil {
			return err
		}
		h := tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(data)), ModTime: r.at, Format: tar.FormatPAX}
		if e.exec {
			h.Mode = 0o755
		}
		if err := writeMember(t, h, data); err != nil {
			return err
		}
	}
	return t.Close()
}

// layout returns an archive with an image of one layer (https://github.com/opencontainers/image-spec/blob/main/image-layout.md). It also has
// manifest.json, which `docker load` asked for before Docker 25.
func (r *release) layout(layer []byte) ([]byte, error) {
	var compressed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&compressed, r.level)
	if err != nil {
		return nil, err
	}
	_, err = zipped.Write(layer)
	if err := errors.Join(err, zipped.Close()); err != nil {
		return nil, err
	}

	files := map[string][]byte{}
	blob := func(mediaType string, data []byte) v1.Descriptor {
		d := digest.FromBytes(data)
		files["blobs/sha256/"+d.Encoded()] = data
		return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
	}
	text := func(doc any) []byte {
		data, jsonErr := json.Marshal(doc)
		err = errors.Join(err, jsonErr)
		return data
	}

	created, tag := r.at, imageName+":"+r.version
	layerBlob := blob(v1.MediaTypeImageLayerGzip, compressed.Bytes())
	config := blob(v1.MediaTypeImageConfig, text(v1.Image{
		Created: &created, Platform: v1.Platform{Architecture: "amd64", OS: "linux"}, RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
		Config: v1.ImageConfig{Entrypoint: []string{"/porthole"}, Env: []string{"PATH=/"}, WorkingDir: "/", Labels: map[string]string{v1.AnnotationVersion: r.version}},
	}))
	manifest := blob(v1.MediaTypeImageManifest, text(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config, Layers: []v1.Descriptor{layerBlob},
	}))
	manifest.Annotations = map[string]string{v1.AnnotationRefName: r.version, "io.containerd.image.name": "docker.io/" + tag}
	files["index.json"] = text(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{manifest}})
	files[v1.ImageLayoutFile] = text(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	files["manifest.json"] = text([]map[string]any{{"Config": "blobs/sha256/" + config.Digest.Encoded(), "RepoTags": []string{tag},
		"Layers": []string{"blobs/sha256/" + layerBlob.Digest.Encoded()}}})
	if err != nil {
		return nil, err
	}
	return tarOf(files, r.at)
}

// tarOf returns an archive of files by name.
func tarOf(files map[string][]byte, at time.Time) ([]byte, error) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	for _, name := range names {
		if err := writeMember(t, tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: at, Format: tar.FormatPAX}, files[name]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), t.Close()
}
