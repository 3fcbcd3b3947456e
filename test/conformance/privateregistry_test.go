package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/test/images"
)

// TestPrivateRegistry walks from the tag to the program, as one who pulls pause:testing does.
func TestPrivateRegistry(t *testing.T) {
	layer := images.NewLayer()
	pause := func(l *images.Layer) error { l.Text("pause", "the program"); return nil }
	if err := addPrivateRegistry(layer, pause); err != nil {
		t.Fatal(err)
	}
	content, err := layer.Tar()
	if err != nil {
		t.Fatal(err)
	}
	have := filesOf(t, content)
	get := func(kind string, d digest.Digest) []byte {
		t.Helper()
		content, ok := have[path.Join("var/registry/pause", kind, "sha256", d.Encoded()[:2], d.Encoded(), "data")]
		if !ok || digest.FromBytes(content) != d {
			t.Fatalf("the registry has no %s with the digest %s", kind, d)
		}
		return content
	}

	tag := strings.TrimSpace(string(have["var/registry/pause/manifests/testing"]))
	var index v1.Index
	if err := json.Unmarshal(get("manifests", digest.Digest(tag)), &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("the tag names an index of %d manifests, want 1: %v", len(index.Manifests), err)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(get("manifests", index.Manifests[0].Digest), &manifest); err != nil ||
		len(manifest.Layers) != 1 {
		t.Fatalf("the manifest has %d layers, want 1: %v", len(manifest.Layers), err)
	}
	get("blobs", manifest.Config.Digest)
	if in := filesOf(t, get("blobs", manifest.Layers[0].Digest)); string(in["pause"]) != "the program" {
		t.Errorf("the image has the files %q, want the program", in)
	}
}

// filesOf reads the regular files of an archive, by name.
func filesOf(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = content
	}
}
