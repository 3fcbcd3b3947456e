package windows

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/atomicfile"
)

// files is a step that keeps files with known contents.
type files struct {
	id    string
	paths []string // all files that the step may make
	// contents returns the wanted content of each file by its full path.
	contents func() (map[string][]byte, error)
}

// ID names the step.
func (s files) ID() string { return s.id }

// Wanted returns the hash of each file by its path. A content that cannot be made is shown in place of a hash, and
// Apply returns the error.
func (s files) Wanted() any {
	contents, err := s.contents()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	sums := map[string]string{}
	for path, data := range contents {
		sums[path] = sumOf(data)
	}
	if len(sums) == 0 { // this node has no such files
		return nil
	}
	return sums
}

// Observe returns the hash of each of the files that exists.
func (s files) Observe(context.Context) (any, error) {
	contents, err := s.contents()
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for path := range contents {
		sum, err := sumOfFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sums[path] = sum
	}
	if len(sums) == 0 {
		return nil, nil
	}
	return sums, nil
}

// Apply writes the files that differ.
func (s files) Apply(context.Context) error {
	contents, err := s.contents()
	if err != nil {
		return err
	}
	for path, data := range contents {
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := atomicfile.WriteThrough(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Undo removes the files, except those that are as they were before the first Apply. What a changed file held before
// is not known any more.
func (s files) Undo(_ context.Context, before []byte) error {
	var had map[string]string
	if err := json.Unmarshal(before, &had); err != nil {
		return fmt.Errorf("reading what was there before: %w", err)
	}
	var errs []error
	for _, path := range s.paths {
		if sum, err := sumOfFile(path); err == nil && sum == had[path] {
			continue
		}
		errs = append(errs, removeFile(path), removeEmpty(filepath.Dir(path)))
	}
	return errors.Join(errs...)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeEmpty removes a folder if nothing is in it.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return removeFile(dir)
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func sumOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
