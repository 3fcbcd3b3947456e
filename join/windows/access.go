package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"porthole.dev/porthole/internal/platform"
)

// access is a step that keeps others away from what the node's programs read.
type access struct {
	id string
	// dirs are folders into which only SYSTEM, the administrators and the owner are let. They are made where they are
	// missing.
	dirs []string
	// files are closed likewise if they exist. Their folders are open to others.
	files []string
}

// Access of a folder or file.
const (
	accessClosed = "SYSTEM, administrators and owner"
	accessHeld   = "only SYSTEM and administrators change it"
	accessOpen   = "others too"
)

// ID names the step.
func (s access) ID() string { return s.id }

// Wanted returns who has access to each folder and file.
func (s access) Wanted() any {
	out := map[string]string{}
	for _, path := range s.closed() {
		out[path] = accessClosed
	}
	for _, dir := range s.around() {
		if _, own := out[dir]; !own {
			out[dir] = accessHeld
		}
	}
	return out
}

// closed returns the folders, and the files that exist.
func (s access) closed() []string {
	list := slices.Clone(s.dirs)
	for _, path := range s.files {
		if _, err := os.Lstat(path); err == nil {
			list = append(list, path)
		}
	}
	return list
}

// around returns the folders around those of the step, without the roots of disks: who may rename one of them puts
// another folder in the place of all that is in it. Links are held, and the folders around what they lead to.
func (s access) around() []string {
	var list []string
	add := func(path string) {
		for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
	}
	for _, path := range slices.Concat(s.dirs, s.files) {
		add(path)
		if real, err := filepath.EvalSymlinks(path); err == nil {
			add(real)
		}
	}
	slices.Sort(list) // outer ones first
	return list
}

// Observe returns who has access to each of the folders and files that exist.
func (s access) Observe(context.Context) (any, error) {
	out := map[string]string{}
	look := func(path, right string, is func(string) (bool, error)) error {
		fine, err := is(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && fine:
			out[path] = right
		case err == nil:
			out[path] = accessOpen
		}
		return err
	}

	for _, dir := range s.around() {
		if err := look(dir, accessHeld, platform.Held); err != nil {
			return nil, err
		}
	}
	for _, path := range s.closed() {
		if err := look(path, accessClosed, platform.Protected); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// Apply makes the folders that are missing, holds those around them, and closes those that let others in.
func (s access) Apply(context.Context) error {
	for _, dir := range s.dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, dir := range s.around() {
		if err := platform.Hold(dir); err != nil {
			return err
		}
	}
	for _, path := range s.closed() {
		if closed, err := platform.Protected(path); err == nil && closed {
			continue
		}
		if err := platform.Protect(path); err != nil {
			return err
		}
	}
	return nil
}

// Undo removes the folders that are empty, and of those around them the ones that were not there before the first
// Apply. Those that are not empty stay closed: what is in them is not for everybody.
func (s access) Undo(_ context.Context, before []byte) error {
	had := map[string]string{}
	if len(before) > 0 {
		if err := json.Unmarshal(before, &had); err != nil {
			return fmt.Errorf("reading which folders were there before: %w", err)
		}
	}
	var errs []error
	for _, dir := range slices.Backward(s.dirs) {
		errs = append(errs, removeEmpty(dir))
	}
	for _, dir := range slices.Backward(s.around()) {
		if had[dir] == "" {
			errs = append(errs, removeEmpty(dir))
		}
	}
	return errors.Join(errs...)
}
