package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// windowsVersions are those of the emulated hosts. A host looks at the build only.
var windowsVersions = []string{"10.0.17763.7314", "10.0.20348.3695", "10.0.26100.4061"}

// pusher makes images and pushes them to one registry, each layer once.
type pusher struct {
	registry string // URL without a path
	client   *http.Client
	parts    map[string]func(*layer) error
	made     map[string]madeLayer
}

type madeLayer struct {
	content []byte
	digest  digest.Digest
}

// pushAll makes and pushes images. What the registry has already is not sent again.
func (p *pusher) pushAll(ctx context.Context, images []image) error {
	for _, i := range images {
		for _, tag := range i.tags {
			if err := p.push(ctx, i, tag); err != nil {
				return fmt.Errorf("image %s:%s: %w", i.repository, tag, err)
			}
		}
	}
	return nil
}

// push pushes an image as an index of its variants: one for Linux, and one for each build of Windows that a node may have.
func (p *pusher) push(ctx context.Context, i image, tag string) error {
	var all []v1.Descriptor
	add := func(v *variant, platform v1.Platform) error {
		d, err := p.variant(ctx, i.repository, tag, v, platform)
		all = append(all, d)
		return err
	}
	if i.linux != nil {
		if err := add(i.linux, v1.Platform{Architecture: "amd64", OS: "linux"}); err != nil {
			return err
		}
	}

	if i.windows != nil {
		for _, version := range windowsVersions {
			if err := add(i.windows, v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: version}); err != nil {
				return err
			}
		}
	}

	index, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: all})
	if err != nil {
		return err
	}
	return p.putManifest(ctx, i.repository, tag, v1.MediaTypeImageIndex, index)
}

// variant pushes one variant of an image and returns its descriptor for the index. The time in it is fixed, so that the digest
// of the same content is always the same.
func (p *pusher) variant(ctx context.Context, repository, tag string, v *variant, platform v1.Platform) (v1.Descriptor, error) {
	created := time.Unix(0, 0).UTC()
	doc := v1.Image{
		Created: &created, Platform: platform, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.ImageConfig{
			Entrypoint: v.entrypoint, Cmd: v.args, Env: v.env, User: v.user, WorkingDir: v.dir,
			Labels: map[string]string{"porthole.dev/conformance": repository + ":" + tag},
		},
	}

	manifest := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	for _, name := range v.layers {
		l, err := p.layer(name)
		if err != nil {
			return v1.Descriptor{}, err
		}
		d, err := p.putBlob(ctx, repository, v1.MediaTypeImageLayer, l.content, l.digest)
		if err != nil {
			return v1.Descriptor{}, err
		}
		doc.RootFS.DiffIDs = append(doc.RootFS.DiffIDs, l.digest)
		manifest.Layers = append(manifest.Layers, d)
	}

	config, err := json.Marshal(doc)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if manifest.Config, err = p.putBlob(ctx, repository, v1.MediaTypeImageConfig, config, digest.FromBytes(config)); err != nil {
		return v1.Descriptor{}, err
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		return v1.Descriptor{}, err
	}

	d := v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: digest.FromBytes(content), Size: int64(len(content)), Platform: &platform}
	return d, p.putManifest(ctx, repository, d.Digest.String(), v1.MediaTypeImageManifest, content)
}

// layer makes a layer once. Layers are not compressed: they travel within one machine.
func (p *pusher) layer(name string) (madeLayer, error) {
	if made, ok := p.made[name]; ok {
		return made, nil
	}
	fill, ok := p.parts[name]
	if !ok {
		return madeLayer{}, fmt.Errorf("no layer %q", name)
	}
	l := newLayer()
	if err := fill(l); err != nil {
		return madeLayer{}, fmt.Errorf("layer %s: %w", name, err)
	}
	content, err := l.tar()
	if err != nil {
		return madeLayer{}, fmt.Errorf("layer %s: %w", name, err)
	}
	p.made[name] = madeLayer{content, digest.FromBytes(content)}
	return p.made[name], nil
}

func (p *pusher) putBlob(ctx context.Context, repository, mediaType string, content []byte, d digest.Digest) (v1.Descriptor, error) {
	desc := v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(content))}
	base := p.registry + "/v2/" + repository + "/blobs/"
	if status, err := p.do(ctx, http.MethodHead, base+d.String(), "", nil); err == nil && status == http.StatusOK {
		return desc, nil
	}
	status, err := p.do(ctx, http.MethodPost, base+"uploads/?digest="+url.QueryEscape(d.String()), "application/octet-stream", content)
	return desc, expect(status, http.StatusCreated, err)
}

func (p *pusher) putManifest(ctx context.Context, repository, reference, mediaType string, content []byte) error {
	status, err := p.do(ctx, http.MethodPut, p.registry+"/v2/"+repository+"/manifests/"+reference, mediaType, content)
	return expect(status, http.StatusCreated, err)
}

func expect(got, want int, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("the registry answers %d %s", got, http.StatusText(got))
	}
	return err
}

// do sends one request and returns the status of the answer. It reads the body to its end, so that the connection can be used
// again.
func (p *pusher) do(ctx context.Context, method, address, mediaType string, content []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return 0, err
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
