package registry

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// WriteArchive writes selected images as an OCI image layout in a tar file, which containerd, ctr and docker can
// import. progress is called with the number of bytes written so far; it may be nil.
func WriteArchive(ctx context.Context, w io.Writer, selections []*Selection, progress func(done int64)) error {
	a := &archiveWriter{tar: tar.NewWriter(w), written: map[digest.Digest]bool{}, progress: progress}

	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	for _, s := range selections {
		top := s.Top
		top.Annotations = map[string]string{images.AnnotationImageName: s.Image.Name,
			v1.AnnotationRefName: refName(s.Image.Name)}
		index.Manifests = append(index.Manifests, top)
	}
	// These two come first, so that a program that reads the file from its start knows what follows.
	for _, f := range []struct {
		name string
		of   any
	}{{v1.ImageLayoutFile, v1.ImageLayout{Version: v1.ImageLayoutVersion}}, {v1.ImageIndexFile, index}} {
		data, err := json.Marshal(f.of)
		if err != nil {
			return err
		}
		if err := a.file(f.name, data); err != nil {
			return err
		}
	}

	for _, s := range selections {
		for _, d := range s.documents {
			if err := a.document(d); err != nil {
				return err
			}
		}
	}
	for _, s := range selections {
		for _, d := range s.layers {
			if err := a.layer(ctx, s.Image, d); err != nil {
				return err
			}
		}
	}
	return a.tar.Close()
}

// refName is the tag of a name; empty if it has a digest only.
func refName(name string) string {
	if ref, err := reference.ParseNamed(name); err == nil {
		if tagged, ok := ref.(reference.Tagged); ok {
			return tagged.Tag()
		}
	}
	return ""
}

type archiveWriter struct {
	tar      *tar.Writer
	written  map[digest.Digest]bool
	done     int64
	progress func(done int64)
}

func blobName(d digest.Digest) string {
	return path.Join(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func (a *archiveWriter) file(name string, data []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644,
		Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := a.tar.Write(data)
	return err
}

func (a *archiveWriter) document(d content) error {
	if a.written[d.Digest] {
		return nil
	}
	a.written[d.Digest] = true
	a.count(len(d.data))
	return a.file(blobName(d.Digest), d.data)
}

// layer copies a layer from the registry and checks its size and digest on the way.
func (a *archiveWriter) layer(ctx context.Context, from *Image, d v1.Descriptor) error {
	if a.written[d.Digest] {
		return nil
	}
	a.written[d.Digest] = true
	r, err := from.Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer r.Close()

	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: blobName(d.Digest), Mode: 0o644,
		Size: d.Size}); err != nil {
		return err
	}
	sum := d.Digest.Verifier()
	n, err := io.Copy(io.MultiWriter(a.tar, sum, a), io.LimitReader(r, d.Size))
	switch {
	case err != nil:
		return fmt.Errorf("fetching layer %s of image %s: %w", d.Digest, from.Name, err)
	case n < d.Size:
		return fmt.Errorf("fetching layer %s of image %s: the registry sent %d of %d bytes", d.Digest, from.Name, n,
			d.Size)
	case !sum.Verified():
		return fmt.Errorf("fetching layer %s of image %s: what the registry sent has another digest", d.Digest,
			from.Name)
	}
	return nil
}

// Write counts what passes.
func (a *archiveWriter) Write(p []byte) (int, error) {
	a.count(len(p))
	return len(p), nil
}

func (a *archiveWriter) count(n int) {
	a.done += int64(n)
	if a.progress != nil {
		a.progress(a.done)
	}
}

// Archived is an image in an archive.
type Archived struct {
	// Name is its name in full; empty if the archive has none for it.
	Name  string         `json:"name"`
	Image winbuild.Image `json:"image"`
}

// maxEntries bounds how many files of an archive are remembered.
const maxEntries = 100_000

// ReadArchive lists the images of an OCI image layout in a tar file. It reads documents only, wherever they are in the
// file.
func ReadArchive(file io.ReadSeeker) ([]Archived, error) {
	a := archiveReader{file: file, at: map[string]span{}}
	if err := a.scan(); err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	data, err := a.read(v1.ImageIndexFile)
	if err != nil {
		return nil, fmt.Errorf("reading the archive: it is no OCI image layout: %w", err)
	}
	var index v1.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("reading the archive: %s: %w", v1.ImageIndexFile, err)
	}

	var out []Archived
	for _, d := range index.Manifests {
		image, err := a.image(d)
		if err != nil {
			return nil, fmt.Errorf("reading the archive: image %s: %w", d.Annotations[images.AnnotationImageName], err)
		}
		out = append(out, Archived{Name: d.Annotations[images.AnnotationImageName], Image: image})
	}
	if len(out) == 0 {
		return nil, errors.New("reading the archive: it has no images")
	}
	return out, nil
}

// archiveReader reads files of an archive by name.
type archiveReader struct {
	file io.ReadSeeker
	at   map[string]span // by name
}

// span is where a file's content is in the archive, in bytes.
type span struct{ offset, size int64 }

// scan notes where in the archive each file is, because an image layout names its files in an order of its own. The
// number of entries is bounded: an archive comes from outside.
func (a *archiveReader) scan() error {
	r := tar.NewReader(a.file)
	for len(a.at) < maxEntries {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no tar file, or it is incomplete or compressed: %w", err)
		}
		offset, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			a.at[path.Clean(h.Name)] = span{offset, h.Size}
		}
	}
	return fmt.Errorf("it has more than %d files", maxEntries)
}

// read returns a file of the archive. It is for documents, not for layers: files over maxDocument bytes are refused.
func (a *archiveReader) read(name string) ([]byte, error) {
	s, ok := a.at[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is missing", name)
	case s.size > maxDocument:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxDocument)
	}
	if _, err := a.file.Seek(s.offset, io.SeekStart); err != nil {
		return nil, err
	}
	data := make([]byte, s.size)
	_, err := io.ReadFull(a.file, data)
	return data, err
}

func (a *archiveReader) blob(d v1.Descriptor) ([]byte, error) {
	if err := d.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("digest %q: %w", d.Digest, err)
	}
	return a.read(blobName(d.Digest))
}

// image returns the platforms of an entry of the layout's index.
func (a *archiveReader) image(d v1.Descriptor) (winbuild.Image, error) {
	data, err := a.blob(d)
	if err != nil {
		return winbuild.Image{}, err
	}
	if images.IsIndexType(d.MediaType) {
		_, image, err := ParseIndex(data)
		return image, err
	}
	manifest, err := parseManifest(data)
	if err != nil {
		return winbuild.Image{}, err
	}
	if data, err = a.blob(manifest.Config); err != nil {
		return winbuild.Image{}, err
	}
	return parseConfig(data)
}
