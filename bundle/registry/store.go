package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"

	"github.com/opencontainers/go-digest"
)

// store keeps each blob once, by digest, and the names that repositories have for them:
//
//	blobs/sha256/<hex>
//	repositories/<name>/_manifests/sha256/<hex>   the manifest's media type
//	repositories/<name>/_tags/<tag>               the digest
type store struct{ dir string }

// The expressions of the distribution specification. They keep names from leading out of the
// folder.
var (
	validName = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	validTag  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

func (s store) blobPath(d digest.Digest) string {
	return filepath.Join(s.dir, "blobs", d.Algorithm().String(), d.Encoded())
}

// repository is the path of something of a repository.
func (s store) repository(name string, parts ...string) string {
	return filepath.Join(append([]string{s.dir, "repositories", filepath.FromSlash(name)}, parts...)...)
}

// putBlob stores the content of r. If want is not empty, the content must have that digest.
func (s store) putBlob(r io.Reader, want digest.Digest) (digest.Digest, int64, error) {
	dir := filepath.Join(s.dir, "blobs", "sha256")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", 0, err
	}

	// The file is complete before it gets its name: a blob that is there is whole.
	tmp, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(tmp.Name())
	sum := digest.SHA256.Digester()
	n, err := io.Copy(io.MultiWriter(tmp, sum.Hash()), r)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return "", 0, fmt.Errorf("keeping a blob: %w", err)
	}

	got := sum.Digest()
	if want != "" && got != want {
		return "", 0, fmt.Errorf("blob has digest %s, not %s", got, want)
	}
	return got, n, os.Rename(tmp.Name(), s.blobPath(got))
}

// hasBlob returns the size of a blob.
func (s store) hasBlob(d digest.Digest) (int64, bool) {
	info, err := os.Stat(s.blobPath(d))
	if err != nil {
		return 0, false
	}
	return info.Size(), true
}

// putManifest keeps a manifest or index in a repository, under tag too unless that is empty.
func (s store) putManifest(name, tag, mediaType string, content []byte) (digest.Digest, error) {
	d, _, err := s.putBlob(bytes.NewReader(content), "")
	if err != nil {
		return "", err
	}
	// The file of a manifest keeps its media type, which the content alone need not tell.
	if err := writeFile(s.repository(name, "_manifests", "sha256", d.Encoded()), mediaType); err != nil {
		return "", err
	}
	if tag == "" {
		return d, nil
	}
	return d, writeFile(s.repository(name, "_tags", tag), d.String())
}

// manifest finds a manifest by tag or digest. The error is os.ErrNotExist if there is none.
func (s store) manifest(name, reference string) (d digest.Digest, mediaType string, content []byte, err error) {
	d, err = digest.Parse(reference)
	if err != nil {
		if !validTag.MatchString(reference) {
			return "", "", nil, os.ErrNotExist
		}
		tagged, err := os.ReadFile(s.repository(name, "_tags", reference))
		if err != nil {
			return "", "", nil, err
		}
		if d, err = digest.Parse(string(tagged)); err != nil {
			return "", "", nil, err
		}
	}

	kind, err := os.ReadFile(s.repository(name, "_manifests", "sha256", d.Encoded()))
	if err != nil {
		return "", "", nil, err
	}

	content, err = os.ReadFile(s.blobPath(d))
	return d, string(kind), content, err
}

// tags are sorted, as the specification wants them. The error is os.ErrNotExist for an unknown
// repository.
func (s store) tags(name string) ([]string, error) {
	entries, err := os.ReadDir(s.repository(name, "_tags"))
	if err != nil {
		return nil, err
	}
	tags := []string{}
	for _, e := range entries {
		tags = append(tags, e.Name())
	}
	sort.Strings(tags)
	return tags, nil
}

// repositories returns the names of the repositories that have a tag.
func (s store) repositories() ([]string, error) {
	root := filepath.Join(s.dir, "repositories")
	names := []string{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || e.Name() != "_tags" {
			return err
		}
		name, err := filepath.Rel(root, filepath.Dir(path))
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// writeFile replaces a file in one step.
func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
