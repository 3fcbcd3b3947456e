package testkit

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Archive writes an image in `docker save` form: the programs by their path in the image, and the entry point.
func Archive(w io.Writer, ref string, programs map[string]string, entrypoint ...string) error {
	// Errors of writing headers are seen when the archive is closed.
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	for path, source := range programs {
		data, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("making image %s: %w", ref, err)
		}
		if dir := filepath.Dir(strings.TrimPrefix(path, "/")); dir != "." {
			_ = t.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		_ = t.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(data))})
		if _, err := t.Write(data); err != nil {
			return err
		}
	}

	_ = t.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777})
	if err := t.Close(); err != nil {
		return err
	}
	sum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint, "Env": []string{"PATH=/bin:/usr/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}}})
	if err != nil {
		return err
	}

	// The id of an image is the hash of its configuration.
	id := sha256.Sum256(config)
	name := hex.EncodeToString(id[:]) + ".json"
	manifest, err := json.Marshal(
		[]map[string]any{{"Config": name, "RepoTags": []string{ref}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}

	out := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		data []byte
	}{{"layer.tar", layer.Bytes()}, {name, config}, {"manifest.json", manifest}} {
		if err := out.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}); err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}

	return out.Close()
}
