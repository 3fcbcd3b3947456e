package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"porthole.dev/porthole/join/step"
)

// File is the step of one file with a content that is known.
type File struct {
	Name string // ID of the step
	Path string
	Perm fs.FileMode
	// Content is called when the steps before have been carried out. nil: no file is wanted.
	Content func() []byte
	// Private: only administrators may use its folder.
	Private bool
	// OnlyNew: a file that is there already is right, whatever it holds; it is another's.
	OnlyNew bool
}

var _ step.Step = File{}

// fileValue is what a file is compared by.
type fileValue struct {
	Path string `json:"path"`
	Mode string `json:"mode,omitempty"` // not on Windows
	Hash string `json:"hash"`
}

// ID returns the name.
func (f File) ID() string { return f.Name }

// Wanted returns the path, the mode and a hash of the content.
func (f File) Wanted() any {
	content := f.Content()
	if content == nil {
		return nil
	}
	if f.OnlyNew {
		return fileValue{Path: f.Path, Hash: "any"}
	}
	return fileValue{Path: f.Path, Mode: mode(f.Perm), Hash: hash(content)}
}

// Observe returns the same of the file that is there.
func (f File) Observe(context.Context) (any, error) {
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a file: %w", err)
	}
	if f.OnlyNew {
		return fileValue{Path: f.Path, Hash: "any"}, nil
	}
	st, err := os.Stat(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading a file: %w", err)
	}
	return fileValue{Path: f.Path, Mode: mode(st.Mode().Perm()), Hash: hash(content)}, nil
}

// Apply writes or removes the file. One that was there before and is not ours is kept beside it.
func (f File) Apply(ctx context.Context) error {
	content := f.Content()
	if content == nil {
		return remove(f.Path)
	}
	folder := filepath.Dir(f.Path)
	if f.Private {
		if err := private(folder); err != nil {
			return err
		}
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	if err := f.keep(); err != nil {
		return err
	}
	return write(f.Path, content, f.Perm)
}

// saved is the name of the file that was there before the first join.
func (f File) saved() string { return f.Path + ".before-porthole" }

// keep copies a file that is there, unless that was done before.
func (f File) keep() error {
	if _, err := os.Stat(f.saved()); err == nil {
		return nil
	}
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keeping a file: %w", err)
	}
	return write(f.saved(), content, 0o600)
}

// Undo removes the file, or puts back the one that was there before.
func (f File) Undo(_ context.Context, before []byte) error {
	var was *fileValue
	if err := json.Unmarshal(before, &was); err != nil {
		return fmt.Errorf("reading what was before: %w", err)
	}
	if was == nil {
		return errors.Join(remove(f.Path, f.saved()), prune(filepath.Dir(f.Path)))
	}
	if err := os.Rename(f.saved(), f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("putting a file back: %w", err)
	}
	return nil
}

func mode(m fs.FileMode) string {
	if runtime.GOOS == "windows" {
		return ""
	}
	return fmt.Sprintf("%04o", m)
}
