// Package registry reads images from registries the way containerd does: by its client, its hosts.toml files and its rules for
// names and logins.
package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/distribution/reference"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// maxDocument bounds an index, a manifest or a configuration. containerd reads manifests of up to 8 MiB
// (core/remotes/docker MaxManifestSize); indexes of images are a few kB.
const maxDocument = 8 << 20

// Login is what a registry is given to let somebody in. Its zero value is nobody.
type Login struct {
	Username, Password string
	// IdentityToken goes before the two.
	IdentityToken string
}

// Options say how registries are reached.
type Options struct {
	// HostsDir is a folder with hosts.toml files, as containerd's config_path names it; empty: each registry under its own name.
	HostsDir string
	Login    Login
}

// Image is an image in a registry.
type Image struct {
	Name string // in full, with registry and tag or digest
	// Top is the index, or the manifest of an image without one.
	Top     v1.Descriptor
	fetcher remotes.Fetcher
}

// Find looks a name up in its registry. It asks for nothing but the digest.
func Find(ctx context.Context, name string, o Options) (*Image, error) {
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, fmt.Errorf("image name %q: %w", name, err)
	}
	hosts := dockerconfig.HostOptions{Credentials: func(string) (string, string, error) {
		if o.Login.IdentityToken != "" {
			return "", o.Login.IdentityToken, nil
		}
		return o.Login.Username, o.Login.Password, nil
	}}
	if o.HostsDir != "" {
		hosts.HostDir = dockerconfig.HostDirFromRoot(o.HostsDir)
	}
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: dockerconfig.ConfigureHosts(ctx, hosts)})

	full, top, err := resolver.Resolve(ctx, ref.String())
	if err != nil {
		return nil, fmt.Errorf("looking up image %s in its registry: %w", ref, err)
	}
	fetcher, err := resolver.Fetcher(ctx, full)
	if err != nil {
		return nil, fmt.Errorf("looking up image %s in its registry: %w", ref, err)
	}
	return &Image{Name: ref.String(), Top: top, fetcher: fetcher}, nil
}

// Fetch opens a document or a layer of the image. Its content is not checked.
func (i *Image) Fetch(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, err := i.fetcher.Fetch(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("fetching %s of image %s: %w", d.Digest, i.Name, err)
	}
	return r, nil
}

// Document reads an index, a manifest or a configuration, and checks it against its digest.
func (i *Image) Document(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	r, err := i.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("fetching %s of image %s: %w", d.Digest, i.Name, err)
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("fetching %s of image %s: it is larger than %d bytes", d.Digest, i.Name, maxDocument)
	}
	if got := d.Digest.Algorithm().FromBytes(data); got != d.Digest {
		return nil, fmt.Errorf("fetching %s of image %s: the registry sent something else, %s", d.Digest, i.Name, got)
	}
	return data, nil
}

// Platforms returns the platforms of the image's variants: from the index alone, or for an image without one from its configuration.
func (i *Image) Platforms(ctx context.Context) (winbuild.Image, error) {
	data, err := i.Document(ctx, i.Top)
	if err != nil {
		return winbuild.Image{}, err
	}
	switch {
	case images.IsIndexType(i.Top.MediaType):
		_, image, err := ParseIndex(data)
		return image, err
	case !images.IsManifestType(i.Top.MediaType):
		return winbuild.Image{}, fmt.Errorf("image %s is of type %s, which is not known", i.Name, i.Top.MediaType)
	}

	var manifest v1.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return winbuild.Image{}, fmt.Errorf("reading the manifest of image %s: %w", i.Name, err)
	}
	if err := manifest.Config.Digest.Validate(); err != nil {
		return winbuild.Image{}, fmt.Errorf("reading the manifest of image %s: its configuration: %w", i.Name, err)
	}
	data, err = i.Document(ctx, manifest.Config)
	if err != nil {
		return winbuild.Image{}, err
	}
	return parseConfig(data)
}
