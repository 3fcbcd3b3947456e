package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// Selection is the part of an image that some builds of Windows run. It is what an archive takes of the image.
type Selection struct {
	Image *Image
	// Variants are the platforms that were chosen.
	Variants []winbuild.Platform
	// Top is the index that names them, or the manifest of an image without one.
	Top v1.Descriptor
	// documents are the index, manifests and configurations; layers is the rest. Each is named once.
	documents []content
	layers    []v1.Descriptor
}

// content is a document with its text.
type content struct {
	v1.Descriptor
	data []byte
}

// Bytes returns the size of the documents and layers.
func (s *Selection) Bytes() (sum int64) {
	for _, d := range s.documents {
		sum += d.Size
	}
	for _, d := range s.layers {
		sum += d.Size
	}
	return sum
}

// Layers returns how many layers the variants have; one that several share counts once.
func (s *Selection) Layers() int { return len(s.layers) }

// Select chooses the variants of the image that the hosts run with an isolation: for each host the one that containerd
// would choose. It reads documents and no layers. If no variant runs on a host, the error says which builds the image
// is for.
func (i *Image) Select(ctx context.Context, hosts []winbuild.Host, isolation winbuild.Isolation) (*Selection, error) {
	data, err := i.Document(ctx, i.Top)
	if err != nil {
		return nil, err
	}
	s := &Selection{Image: i, Top: i.Top}
	if !images.IsIndexType(i.Top.MediaType) {
		platforms, err := i.Platforms(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			if err := mustRun(i.Name, platforms, h, isolation); err != nil {
				return nil, err
			}
		}
		s.Variants = platforms.Platforms
		return s, s.addManifest(ctx, i.Top)
	}

	index, platforms, err := ParseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.Name, err)
	}
	var chosen []v1.Descriptor
	for _, h := range hosts {
		if err := mustRun(i.Name, platforms, h, isolation); err != nil {
			return nil, err
		}
		chosen = append(chosen, choose(index.Manifests, winbuild.Check(platforms, h, isolation))...)
	}
	if err := s.addIndex(index, data, chosen); err != nil {
		return nil, err
	}
	for _, d := range chosen {
		if err := s.addManifest(ctx, d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// mustRun returns an error that names image and build if the image does not run on the host.
func mustRun(name string, image winbuild.Image, host winbuild.Host, isolation winbuild.Isolation) error {
	if a := winbuild.Check(image, host, isolation); a.Outcome == winbuild.NotRun {
		return fmt.Errorf("image %s has nothing for build %s: it is for %s (%s)", name, host.Version.Build,
			image.Contents(), a.Rule.Text)
	}
	return nil
}

// choose returns the entries of an index that have the build of an answer. If the answer is not that the image runs,
// it returns all entries that may be for Windows.
func choose(entries []v1.Descriptor, a winbuild.Answer) (out []v1.Descriptor) {
	want, _ := winbuild.ParseVersion(a.Platform.Version)
	for _, d := range entries {
		switch {
		case images.IsIndexType(d.MediaType) || d.Platform != nil && d.Platform.OS != "windows":
		case a.Outcome != winbuild.Runs:
			out = append(out, d)
		case d.Platform == nil:
		default:
			if v, ok := winbuild.ParseVersion(d.Platform.OSVersion); ok && v.Build == want.Build &&
				d.Platform.Architecture == a.Platform.Architecture {
				out = append(out, d)
			}
		}
	}
	return out
}

// addIndex adds the index to the selection. If only some entries were chosen, it adds a new index with those, because
// an importer fails if it finds an entry for its host whose manifest is missing. data is the text of index.
func (s *Selection) addIndex(index v1.Index, data []byte, chosen []v1.Descriptor) error {
	kept := slices.DeleteFunc(slices.Clone(index.Manifests), func(d v1.Descriptor) bool {
		return !slices.ContainsFunc(chosen, func(c v1.Descriptor) bool { return c.Digest == d.Digest })
	})
	for _, d := range kept {
		if d.Platform != nil {
			s.Variants = append(s.Variants, platform(*d.Platform))
		}
	}
	if len(kept) < len(index.Manifests) {
		var err error
		part := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: s.Top.MediaType, Manifests: kept,
			Annotations: index.Annotations}
		if data, err = json.Marshal(part); err != nil {
			return err
		}
		s.Top = v1.Descriptor{MediaType: s.Top.MediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	}
	s.documents = append(s.documents, content{s.Top, data})
	return nil
}

// addManifest adds a manifest to the selection, with its configuration and layers.
func (s *Selection) addManifest(ctx context.Context, d v1.Descriptor) error {
	if s.has(d.Digest) {
		return nil
	}
	data, err := s.Image.Document(ctx, d)
	if err != nil {
		return err
	}
	manifest, err := parseManifest(data)
	if err != nil {
		return fmt.Errorf("image %s: %w", s.Image.Name, err)
	}
	d.Size = int64(len(data))
	s.documents = append(s.documents, content{d, data})

	if !s.has(manifest.Config.Digest) {
		config, err := s.Image.Document(ctx, manifest.Config)
		if err != nil {
			return err
		}
		manifest.Config.Size = int64(len(config))
		s.documents = append(s.documents, content{manifest.Config, config})
	}
	for _, l := range manifest.Layers {
		if !s.has(l.Digest) {
			s.layers = append(s.layers, l)
		}
	}
	return nil
}

func (s *Selection) has(d digest.Digest) bool {
	return slices.ContainsFunc(s.documents, func(c content) bool { return c.Digest == d }) ||
		slices.ContainsFunc(s.layers, func(l v1.Descriptor) bool { return l.Digest == d })
}

// parseManifest parses a manifest and checks the digests and sizes in it.
func parseManifest(data []byte) (v1.Manifest, error) {
	var m v1.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("reading a manifest: %w", err)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if err := d.Digest.Validate(); err != nil {
			return m, fmt.Errorf("reading a manifest: digest %q: %w", d.Digest, err)
		}
		if d.Size < 0 {
			return m, fmt.Errorf("reading a manifest: %s has the size %d", d.Digest, d.Size)
		}
	}
	return m, nil
}

// Manifests returns the digests of the chosen manifests.
func (s *Selection) Manifests() (out []digest.Digest) {
	for _, d := range s.documents {
		if images.IsManifestType(d.MediaType) {
			out = append(out, d.Digest)
		}
	}
	return out
}
