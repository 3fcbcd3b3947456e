package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Pusher makes images and pushes them to one registry, each layer once.
type Pusher struct {
	Registry string // URL without a path; Login adds who may push
	Client   *http.Client
	Parts    map[string]func(*Layer) error // what the layers that images name are made of

	made map[string]madeLayer
}

type madeLayer struct {
	content []byte
	digest  digest.Digest
}

// Login returns the URL of a registry with the login in a file, NAME:PASSWORD.
func Login(registry, file string) (string, error) {
	login, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the login of the registry: %w", err)
	}
	address, err := url.Parse(registry)
	if err != nil {
		return "", err
	}
	name, password, _ := strings.Cut(strings.TrimSpace(string(login)), ":")
	address.User = url.UserPassword(name, password)
	return address.String(), nil
}

// PushAll makes and pushes images. What the registry has already is not sent again.
func (p *Pusher) PushAll(ctx context.Context, images []Image) error {
	for _, i := range images {
		for _, tag := range i.Tags {
			if err := p.push(ctx, i, tag); err != nil {
				return fmt.Errorf("image %s:%s: %w", i.Repository, tag, err)
			}
		}
	}
	return nil
}

// push pushes an image as an index of its variants: one for Linux, and one for each build of Windows. The tag of an
// image for one version of Windows only names its manifest.
func (p *Pusher) push(ctx context.Context, i Image, tag string) error {
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	var last []byte
	add := func(v *Variant, platform v1.Platform) error {
		content, err := p.variant(ctx, i.Repository, tag, v, platform)
		if err != nil {
			return err
		}
		d := v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: digest.FromBytes(content),
			Size: int64(len(content)), Platform: &platform}
		index.Manifests = append(index.Manifests, d)
		last = content
		return p.putManifest(ctx, i.Repository, d.Digest.String(), v1.MediaTypeImageManifest, content)
	}
	if i.Linux != nil {
		if err := add(i.Linux, v1.Platform{Architecture: "amd64", OS: "linux"}); err != nil {
			return err
		}
	}

	if i.Windows != nil {
		for _, version := range i.versions() {
			if err := add(i.Windows, v1.Platform{Architecture: "amd64", OS: "windows",
				OSVersion: version}); err != nil {
				return err
			}
		}
	}

	if i.Linux == nil && len(i.Versions) == 1 {
		return p.putManifest(ctx, i.Repository, tag, v1.MediaTypeImageManifest, last)
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return p.putManifest(ctx, i.Repository, tag, v1.MediaTypeImageIndex, content)
}

// variant pushes the layers and the configuration of one variant, and returns its manifest. The time in it is fixed,
// so that the digest of the same content is always the same.
func (p *Pusher) variant(ctx context.Context, repository, tag string, v *Variant, platform v1.Platform) ([]byte,
	error) {
	doc := v.document(platform, map[string]string{"porthole.dev/conformance": repository + ":" + tag})
	manifest := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	for _, name := range v.Layers {
		l, err := p.layer(name)
		if err != nil {
			return nil, err
		}
		d, err := p.putBlob(ctx, repository, v1.MediaTypeImageLayer, l.content, l.digest)
		if err != nil {
			return nil, err
		}
		doc.RootFS.DiffIDs = append(doc.RootFS.DiffIDs, l.digest)
		manifest.Layers = append(manifest.Layers, d)
	}

	config, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	if manifest.Config, err = p.putBlob(ctx, repository, v1.MediaTypeImageConfig, config,
		digest.FromBytes(config)); err != nil {
		return nil, err
	}
	return json.Marshal(manifest)
}

// document is the configuration of an image that has no layers yet.
func (v *Variant) document(platform v1.Platform, labels map[string]string) v1.Image {
	created := time.Unix(0, 0).UTC()
	config := v1.ImageConfig{Entrypoint: v.Entrypoint, Cmd: v.Args, Env: v.Env, User: v.User, WorkingDir: v.Dir,
		Labels: labels}
	//lint:ignore SA1019 images that Docker makes on Windows have it, and containerd heeds it
	config.ArgsEscaped = v.ArgsEscaped
	for _, path := range v.Volumes {
		if config.Volumes == nil {
			config.Volumes = map[string]struct{}{}
		}
		config.Volumes[path] = struct{}{}
	}
	return v1.Image{Created: &created, Platform: platform, RootFS: v1.RootFS{Type: "layers"}, Config: config}
}

// layer makes a layer once. Layers are not compressed: they travel within one machine.
func (p *Pusher) layer(name string) (madeLayer, error) {
	if made, ok := p.made[name]; ok {
		return made, nil
	}
	fill, ok := p.Parts[name]
	if !ok {
		return madeLayer{}, fmt.Errorf("no layer %q", name)
	}
	l := NewLayer()
	if err := fill(l); err != nil {
		return madeLayer{}, fmt.Errorf("layer %s: %w", name, err)
	}
	content, err := l.Tar()
	if err != nil {
		return madeLayer{}, fmt.Errorf("layer %s: %w", name, err)
	}
	if p.made == nil {
		p.made = map[string]madeLayer{}
	}
	p.made[name] = madeLayer{content, digest.FromBytes(content)}
	return p.made[name], nil
}

func (p *Pusher) putBlob(ctx context.Context, repository, mediaType string, content []byte,
	d digest.Digest) (v1.Descriptor, error) {
	desc := v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(content))}
	base := p.Registry + "/v2/" + repository + "/blobs/"
	if status, err := p.do(ctx, http.MethodHead, base+d.String(), "", nil); err == nil && status == http.StatusOK {
		return desc, nil
	}
	status, err := p.do(ctx, http.MethodPost, base+"uploads/?digest="+url.QueryEscape(d.String()),
		"application/octet-stream", content)
	return desc, expect(status, http.StatusCreated, err)
}

func (p *Pusher) putManifest(ctx context.Context, repository, reference, mediaType string, content []byte) error {
	status, err := p.do(ctx, http.MethodPut, p.Registry+"/v2/"+repository+"/manifests/"+reference, mediaType, content)
	return expect(status, http.StatusCreated, err)
}

func expect(got, want int, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("the registry answers %d %s", got, http.StatusText(got))
	}
	return err
}

// do sends one request and returns the status of the answer. It reads the body to its end, so that the connection can
// be used again.
func (p *Pusher) do(ctx context.Context, method, address, mediaType string, content []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return 0, err
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := p.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
