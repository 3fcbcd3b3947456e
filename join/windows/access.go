package windows

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"porthole.dev/porthole/internal/platform"
)

// access is a step that lets only SYSTEM, the administrators and the owner into folders, which it makes where they are missing.
type access struct{ dirs []string }

// Access of a folder.
const (
	accessClosed = "SYSTEM, administrators and owner"
	accessOpen   = "others too"
)

// ID names the step.
func (s access) ID() string { return "access" }

// Wanted returns who has access to each folder.
func (s access) Wanted() any {
	out := map[string]string{}
	for _, dir := range s.dirs {
		out[dir] = accessClosed
	}
	return out
}

// Observe returns who has access to each of the folders that exist.
func (s access) Observe(context.Context) (any, error) {
	out := map[string]string{}
	for _, dir := range s.dirs {
		closed, err := platform.Protected(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case closed:
			out[dir] = accessClosed
		default:
			out[dir] = accessOpen
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// Apply makes the folders that are missing, and closes those that let others in.
func (s access) Apply(context.Context) error {
	for _, dir := range s.dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if closed, err := platform.Protected(dir); err == nil && closed {
			continue
		}
		if err := platform.Protect(dir); err != nil {
			return err
		}
	}
	return nil
}

// Undo removes the folders that are empty. Those that are not stay closed: what is in them is not for everybody.
func (s access) Undo(context.Context, []byte) error {
	var errs []error
	for _, dir := range s.dirs {
		errs = append(errs, removeEmpty(dir))
	}
	return errors.Join(errs...)
}
