package cri

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	snapshotter = "overlayfs"
	// windowsConfigLabel, on the config that containerd's CRI sees, names the image's own one.
	windowsConfigLabel = "porthole.dev/windows-config"
	managedLabel       = "io.cri-containerd.image" // containerd's CRI looks at images with this label only
)

// linuxPlatform is what containerd unpacks and runs; the layers themselves stay what they are.
var linuxPlatform = v1.Platform{OS: "linux", Architecture: "amd64"}

// PullImage fetches the image of this host's Windows build, unpacks its layers, and records it so that containerd's CRI
// knows it, under the name it was asked for.
func (s imageService) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	name := r.GetImage().GetImage()
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "image name %q: %v", name, err)
	}
	id, err := s.pull(ctx, ref, r.GetAuth())
	if err != nil {
		code := codes.Unknown
		if isNotFound(err) {
			code = codes.NotFound
		}
		return nil, status.Errorf(code, "failed to pull and unpack image %q: %v", ref, err)
	}
	return &runtimeapi.PullImageResponse{ImageRef: id}, nil
}

// pull fetches and installs an image, and returns its id. The lease keeps containerd from removing what was fetched before the
// image is recorded.
func (s *Server) pull(ctx context.Context, ref reference.Named, auth *runtimeapi.AuthConfig) (string, error) {
	ctx, done, err := s.containerd.WithLease(namespaces.WithNamespace(ctx, namespace))
	if err != nil {
		return "", err
	}
	defer done(context.WithoutCancel(ctx))
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: dockerconfig.ConfigureHosts(ctx, dockerconfig.HostOptions{
		HostDir: dockerconfig.HostDirFromRoot(s.o.CertsDir),
		Credentials: func(string) (string, string, error) {
			if auth.GetIdentityToken() != "" {
				return "", auth.GetIdentityToken(), nil
			}
			return auth.GetUsername(), auth.GetPassword(), nil
		},
	})})

	name, top, err := resolver.Resolve(ctx, ref.String())
	if err != nil {
		return "", err
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return "", err
	}
	fetch := func(d v1.Descriptor) error {
		_, err := remotes.FetchHandler(s.containerd.ContentStore(), fetcher)(ctx, d)
		return err
	}

	return install(ctx, s, ref, top, fetch)
}

// install installs an image on this host: it fetches and unpacks the variant that the host runs, and records it under its name, its
// digest and its id. It returns the id. fetch copies a part of the image into containerd's content store.
func install(ctx context.Context, s *Server, ref reference.Named, top v1.Descriptor, fetch func(v1.Descriptor) error) (string, error) {
	manifest, original, err := s.fetchWindows(ctx, top, fetch)
	if err != nil {
		return "", err
	}
	for _, layer := range manifest.Layers {
		if err := fetch(layer); err != nil {
			return "", fmt.Errorf("fetching layer %s: %w", layer.Digest, err)
		}
	}

	target, id, err := s.record(ctx, manifest, original)
	if err != nil {
		return "", err
	}
	image := images.Image{Name: ref.String(), Target: target, Labels: map[string]string{managedLabel: "managed"}}
	if err := containerd.NewImage(s.containerd, image).Unpack(ctx, snapshotter); err != nil {
		return "", fmt.Errorf("unpacking: %w", err)
	}
	names := []string{ref.String(), reference.TrimNamed(ref).Name() + "@" + top.Digest.String(), id}
	for _, n := range names {
		image.Name = n
		if err := s.putImage(ctx, image); err != nil {
			return "", fmt.Errorf("recording image as %s: %w", n, err)
		}
	}
	return id, s.waitForImage(ctx, names)
}

// fetchWindows fetches down to the config of the image for this host. The platform of an image without an index is not compared:
// such an image fails when it is started.
func (s *Server) fetchWindows(ctx context.Context, top v1.Descriptor, fetch func(v1.Descriptor) error) (v1.Manifest, v1.Image, error) {
	var manifest v1.Manifest
	var config v1.Image
	if err := fetch(top); err != nil {
		return manifest, config, err
	}
	target := top
	if images.IsIndexType(top.MediaType) {
		var index v1.Index
		if err := s.readJSON(ctx, top, &index); err != nil {
			return manifest, config, err
		}
		var ok bool
		if target, ok = selectManifest(index.Manifests, s.o.matcher()); !ok {
			return manifest, config, noMatchError{top}
		}
		if err := fetch(target); err != nil {
			return manifest, config, err
		}
	}

	if err := s.readJSON(ctx, target, &manifest); err != nil {
		return manifest, config, err
	}
	if err := fetch(manifest.Config); err != nil {
		return manifest, config, err
	}
	if err := s.readJSON(ctx, manifest.Config, &config); err != nil {
		return manifest, config, err
	}
	if target.Digest != top.Digest && target.Platform == nil && !s.o.matcher().Match(config.Platform) {
		return manifest, config, noMatchError{top}
	}
	return manifest, config, nil
}

func (s *Server) readJSON(ctx context.Context, d v1.Descriptor, into any) error {
	data, err := content.ReadBlob(ctx, s.containerd.ContentStore(), d)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// record writes a manifest and config that a Linux containerd accepts, around the same layers. What starts the program
// is left out of that config: CreateContainer takes it from the original.
func (s *Server) record(ctx context.Context, manifest v1.Manifest, original v1.Image) (target v1.Descriptor, id string, err error) {
	store := s.containerd.ContentStore()
	put := func(mediaType string, of any, labels map[string]string) (v1.Descriptor, error) {
		data, err := json.Marshal(of)
		if err != nil {
			return v1.Descriptor{}, err
		}
		d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		err = content.WriteBlob(ctx, store, "porthole-"+d.Digest.String(), bytes.NewReader(data), d, content.WithLabels(labels))
		return d, err
	}

	config, err := put(v1.MediaTypeImageConfig, v1.Image{
		Created: original.Created, Author: original.Author, Platform: linuxPlatform, RootFS: original.RootFS, History: original.History,
		Config: v1.ImageConfig{
			StopSignal: "SIGINT", // Wine makes a CTRL_C event of it, which programs can handle
			Labels:     merge(original.Config.Labels, map[string]string{windowsConfigLabel: manifest.Config.Digest.String()}),
		},
	}, nil)
	if err != nil {
		return target, "", err
	}
	labels := map[string]string{
		"containerd.io/gc.ref.content.config":  config.Digest.String(),
		"containerd.io/gc.ref.content.windows": manifest.Config.Digest.String(),
	}

	for i, layer := range manifest.Layers {
		labels[fmt.Sprintf("containerd.io/gc.ref.content.l.%d", i)] = layer.Digest.String()
	}
	target, err = put(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config, Layers: manifest.Layers,
	}, labels)
	target.Platform = &linuxPlatform
	return target, config.Digest.String(), err
}

// isNotFound reports whether containerd says that something does not exist. It marks such errors by a method.
func isNotFound(err error) bool {
	var marked interface{ NotFound() }
	return errors.As(err, &marked)
}

// isAlreadyExists reports whether containerd says that something exists already.
func isAlreadyExists(err error) bool {
	var marked interface{ AlreadyExists() }
	return errors.As(err, &marked)
}

func (s *Server) putImage(ctx context.Context, image images.Image) error {
	store := s.containerd.ImageService()
	_, err := store.Create(ctx, image)
	if isAlreadyExists(err) {
		_, err = store.Update(ctx, image)
	}
	return err
}

// waitForImage returns when containerd's CRI has heard of the names, which it does by an event.
func (s *Server) waitForImage(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, imageWait)
	defer cancel()
	for _, name := range names {
		for {
			r, err := s.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			if err != nil {
				return err
			}
			if r.GetImage().GetId() == names[len(names)-1] {
				break
			}
			select {
			case <-ctx.Done():
				return errors.New("containerd's CRI does not list the image")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}

// windowsImage finds the image's own config and the chain of its layers.
func (s *Server) windowsImage(ctx context.Context, id string) (original v1.Image, diffs []digest.Digest, err error) {
	image, err := s.containerd.ImageService().Get(ctx, id)
	if err != nil {
		return original, nil, err
	}
	var manifest v1.Manifest
	if err := s.readJSON(ctx, image.Target, &manifest); err != nil {
		return original, nil, err
	}
	var recorded v1.Image
	if err := s.readJSON(ctx, manifest.Config, &recorded); err != nil {
		return original, nil, err
	}
	windows := digest.Digest(recorded.Config.Labels[windowsConfigLabel])
	if windows == "" {
		return original, nil, fmt.Errorf("image %s is not a Windows image", id)
	}
	err = s.readJSON(ctx, v1.Descriptor{Digest: windows}, &original)
	return original, recorded.RootFS.DiffIDs, err
}

func merge(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}
