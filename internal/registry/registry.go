// Package registry reads images from registries the way containerd does: by its client, its hosts.toml files and its
// rules for names and logins.
package registry

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/internal/winbuild"
)

// maxDocument bounds an index, a manifest or a configuration. containerd reads manifests of up to 8 MiB
// (core/remotes/docker MaxManifestSize); indexes of images are a few kB.
const maxDocument = 8 << 20

// Login is a login for a registry. Its zero value is an anonymous one.
type Login struct {
	Username, Password string
	// IdentityToken, if set, is used in place of the other two.
	IdentityToken string
}

// Options say how registries are reached.
type Options struct {
	// HostsDir is a folder with hosts.toml files, such as containerd's config_path; empty: each registry is reached
	// under its own name.
	HostsDir string
	// Mirror is the URL of a registry that is asked for all images, in place of the registries that their names give;
	// empty: none. HostsDir has no effect on it.
	Mirror string
	Login  Login
}

// Image is an image in a registry.
type Image struct {
	Name string // in full, with registry and tag or digest
	// Top is the index, or the manifest of an image without one.
	Top     v1.Descriptor
	fetcher remotes.Fetcher
}

// Find looks up an image by name in its registry. It only asks for the digest.
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
	configured, err := o.hosts(ctx, hosts)
	if err != nil {
		return nil, err
	}
	quiet()
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: configured})

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

// quiet keeps containerd's client from writing a line to stderr for each registry that answers "not found". It returns
// errors anyway.
var quiet = sync.OnceFunc(func() { _ = log.SetLevel("warning") })

// hosts returns how registries are reached. With a mirror all requests go to that.
func (o Options) hosts(ctx context.Context, hosts dockerconfig.HostOptions) (docker.RegistryHosts, error) {
	if o.Mirror == "" {
		return dockerconfig.ConfigureHosts(ctx, hosts), nil
	}
	u, err := url.Parse(o.Mirror)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("registry %q is no address such as https://registry.local:5000", o.Mirror)
	}
	hosts.DefaultScheme = u.Scheme
	configured := dockerconfig.ConfigureHosts(ctx, hosts)
	return func(string) ([]docker.RegistryHost, error) {
		list, err := configured(u.Host)
		for i := range list {
			list[i].Scheme, list[i].Host = u.Scheme, u.Host
		}
		return list, err
	}, nil
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
	if err := d.Digest.Validate(); err != nil { // the algorithm of such a digest must not be used
		return nil, fmt.Errorf("fetching %q of image %s: %w", d.Digest, i.Name, err)
	}
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
		return nil, fmt.Errorf("fetching %s of image %s: what the registry sent has the digest %s", d.Digest, i.Name,
			got)
	}
	return data, nil
}

// Platforms returns the platforms of the image's variants. It reads only the index or, for an image without one, the
// configuration.
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

	manifest, err := parseManifest(data)
	if err != nil {
		return winbuild.Image{}, fmt.Errorf("image %s: %w", i.Name, err)
	}
	data, err = i.Document(ctx, manifest.Config)
	if err != nil {
		return winbuild.Image{}, err
	}
	return parseConfig(data)
}
