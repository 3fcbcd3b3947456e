package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"

	"porthole.dev/porthole/test/images"
)

// addPrivateRegistry adds the folder of images that the private registry in agnhost serves
// (test/images/agnhost/fakeregistryserver of Kubernetes 1.36.3): pause:testing, which tests pull with a secret.
func addPrivateRegistry(l *images.Layer, pause func(*images.Layer) error) error {
	p := &images.Pusher{
		Registry: "http://folder", Client: &http.Client{Transport: registryFolder{l}},
		Parts: map[string]func(*images.Layer) error{"pause": pause},
	}
	return p.PushAll(context.Background(),
		[]images.Image{{Repository: "pause", Tags: []string{"testing"}, Linux: pauseVariant()}})
}

// pauseVariant is the image of upstream's pause: its user has no name.
func pauseVariant() *images.Variant {
	return &images.Variant{Layers: []string{"pause"}, Entrypoint: []string{"/pause"}, Env: []string{linuxPath},
		Dir: "/", User: "65535:65535"}
}

// registryFolder answers a push as a registry does, and puts what is pushed into a layer, as agnhost's registry wants
// it:
//
//	var/registry/NAME/blobs/sha256/AB/ABCD…/data
//	var/registry/NAME/manifests/sha256/AB/ABCD…/data
//	var/registry/NAME/manifests/TAG                     the digest of its manifest
type registryFolder struct{ layer *images.Layer }

// RoundTrip takes in one blob or manifest, for a name of one part.
func (f registryFolder) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := func(status int) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(nil)), Request: req}, nil
	}
	parts := strings.Split(strings.TrimPrefix(req.URL.Path, "/v2/"), "/")
	// Nothing is there yet: the pusher sends everything.
	if req.Method == http.MethodHead {
		return answer(http.StatusNotFound)
	}
	if len(parts) < 3 {
		return nil, fmt.Errorf("pushing to %s: it names neither a blob nor a manifest", req.URL.Path)
	}
	content, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("reading what is pushed to %s: %w", req.URL.Path, err)
	}

	folder := path.Join("var/registry", parts[0], parts[1])
	d := digest.FromBytes(content)
	f.layer.Text(path.Join(folder, d.Algorithm().String(), d.Encoded()[:2], d.Encoded(), "data"), string(content))
	if tag := parts[2]; parts[1] == "manifests" && !strings.Contains(tag, ":") {
		f.layer.Text(path.Join(folder, tag), d.String()+"\n")
	}
	return answer(http.StatusCreated)
}
