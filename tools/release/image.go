package main

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// image is a container image of a release.
type image struct {
	name   string // without the version
	file   string // in the folder of the release
	config v1.ImageConfig
	// entries are its files.
	entries func(r *release) ([]entry, error)
}

// nodeImage is the image of the DaemonSet that `porthole manifests` prints. It holds static programs only.
var nodeImage = image{
	name: "porthole/node", file: "porthole-node-%s-linux-amd64.oci.tar", entries: nodeEntries,
	config: v1.ImageConfig{Entrypoint: []string{"/porthole"}, Env: []string{"PATH=/"}, WorkingDir: "/"},
}

// clusterImage is a cluster with emulated Windows nodes: the archive for Linux, which needs no other file.
//
//	docker run --privileged -p 6443:6443 -v porthole:/var/lib/porthole porthole/cluster:VERSION
var clusterImage = image{
	name: "porthole/cluster", file: "porthole-%s.oci.tar", entries: clusterEntries,
	config: v1.ImageConfig{
		Entrypoint: []string{"/porthole/porthole"}, Cmd: []string{"up", "--foreground", "--listen", "0.0.0.0"},
		WorkingDir: "/porthole", Env: []string{"PATH=/porthole:/porthole/root/usr/bin"},
		ExposedPorts: map[string]struct{}{"6443/tcp": {}, "5000/tcp": {}},
		// Layers of images lie on each other here, which they cannot do on the layers of the container.
		Volumes: map[string]struct{}{"/var/lib/porthole": {}}, StopSignal: "SIGTERM",
	},
}

// nodeEntries are the files of the node's image: programs at its root, and what describes them.
func nodeEntries(r *release) ([]entry, error) {
	var programs []entry
	for _, name := range []string{"porthole", "porthole-routes"} {
		programs = append(programs, entry{name: name, path: filepath.Join(r.root, "bin", name), exec: true})
	}
	more, err := r.described(programs)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: `make build` builds it", err)
	}
	for i := range more {
		more[i].name = "usr/share/porthole/" + more[i].name
	}
	return append(programs, more...), err
}

// clusterEntries are those of the archive for Linux, below the folder porthole.
func clusterEntries(r *release) ([]entry, error) {
	list, err := r.entries(linuxArchive(r.version))
	if err != nil {
		return nil, err
	}
	more, err := r.described(list)
	list = append(list, more...)
	for i := range list {
		list[i].name = path.Join("porthole", list[i].name)
	}
	return list, err
}

// image writes an image as an archive in OCI's layout, which `ctr images import`, `skopeo copy`, `podman load` and
// `docker load` read.
func (r *release) image(i image) (target string, err error) {
	entries, err := i.entries(r)
	if err != nil {
		return "", err
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	l, err := r.pack(entries)
	defer os.Remove(l.file)
	if err != nil {
		return "", err
	}
	files, err := r.layout(i, l)
	if err != nil {
		return "", err
	}

	target = filepath.Join(r.out, fmt.Sprintf(i.file, r.version))
	out, err := os.Create(target)
	if err != nil {
		return "", err
	}
	if err := errors.Join(r.writeLayout(out, files, l), out.Close()); err != nil {
		return "", errors.Join(err, os.Remove(target)) // half an image
	}
	return target, nil
}

// layer is the one layer of an image, compressed, in a file of its own until the image is written.
type layer struct {
	file    string
	content digest.Digest // of what is compressed
	blob    v1.Descriptor
}

// path is where the layer is in the image's archive.
func (l layer) path() string { return blobPath(l.blob.Digest) }

// blobPath is where the layout has a blob.
func blobPath(d digest.Digest) string { return "blobs/sha256/" + d.Encoded() }

// pack writes files as a layer. The caller removes its file, which there may be with an error too.
func (r *release) pack(entries []entry) (l layer, err error) {
	f, err := os.CreateTemp(r.out, "layer-")
	if err != nil {
		return l, err
	}
	l.file = f.Name()
	defer func() { err = errors.Join(err, f.Close()) }()
	// The digest of the packed layer is its name; that of the content is in the image's
	// configuration.
	packed := digest.SHA256.Digester()
	content := digest.SHA256.Digester()
	err = r.gzip(io.MultiWriter(f, packed.Hash()), func(w io.Writer) error {
		t := tar.NewWriter(io.MultiWriter(w, content.Hash()))
		if err := r.writeEntries(t, "", entries); err != nil {
			return err
		}
		return t.Close()
	})
	if err != nil {
		return l, err
	}

	st, err := f.Stat()
	if err != nil {
		return l, err
	}
	l.content = content.Digest()
	l.blob = v1.Descriptor{MediaType: v1.MediaTypeImageLayerGzip, Digest: packed.Digest(), Size: st.Size()}
	return l, nil
}

// layout returns all files of an image's archive but its layer
// (https://github.com/opencontainers/image-spec/blob/main/image-layout.md). It also has manifest.json, which `docker
// load` asked for before Docker 25.
func (r *release) layout(i image, l layer) (files map[string][]byte, err error) {
	files = map[string][]byte{}
	// Errors of encoding are collected: the documents are of our own types.
	text := func(doc any) []byte {
		data, jsonErr := json.Marshal(doc)
		err = errors.Join(err, jsonErr)
		return data
	}
	blob := func(mediaType string, data []byte) v1.Descriptor {
		d := digest.FromBytes(data)
		files[blobPath(d)] = data
		return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
	}

	created, tag := r.at, i.name+":"+r.version
	i.config.Labels = map[string]string{v1.AnnotationVersion: r.version}
	config := blob(v1.MediaTypeImageConfig, text(v1.Image{
		Created: &created, Platform: v1.Platform{Architecture: "amd64", OS: "linux"}, Config: i.config,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{l.content}},
	}))
	manifest := blob(v1.MediaTypeImageManifest, text(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: config, Layers: []v1.Descriptor{l.blob},
	}))
	manifest.Annotations = map[string]string{v1.AnnotationRefName: r.version,
		"io.containerd.image.name": "docker.io/" + tag}
	files["index.json"] = text(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{manifest},
	})
	files[v1.ImageLayoutFile] = text(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	files["manifest.json"] = text([]map[string]any{{
		"Config": blobPath(config.Digest), "RepoTags": []string{tag}, "Layers": []string{l.path()},
	}})
	return files, err
}

// writeLayout writes an archive of files by name, and of a layer.
func (r *release) writeLayout(out io.Writer, files map[string][]byte, l layer) error {
	names := []string{l.path()}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	t := tar.NewWriter(out)
	for _, name := range names {
		h := tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: r.at, Format: tar.FormatPAX}
		if name != l.path() {
			if err := writeMember(t, h, files[name]); err != nil {
				return err
			}
			continue
		}
		h.Size = l.blob.Size
		if err := copyMember(t, h, l.file); err != nil {
			return err
		}
	}
	return t.Close()
}

// copyMember writes a header and then a file, whose size the header has.
func copyMember(t *tar.Writer, h tar.Header, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeMember(t, h, nil); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
