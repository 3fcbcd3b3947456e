package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// files records what the file system allows this account. It uses a temporary folder.
func (r *recorder) files(ctx context.Context) {
	dir, err := os.MkdirTemp("", "porthole-check-")
	if r.try("file.folder", func() error { return err }) != nil {
		return
	}
	r.made("folder "+dir, func(context.Context) error { return os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }

	r.links(at)

	_ = r.try("file.rename-open",
		func() error { return withShared(at("log"), func() error { return os.Rename(at("log"), at("log.1")) }) })
	_ = r.try("file.delete-open", func() error {
		return withShared(at("gone"), func() error {
			if err := os.Remove(at("gone")); err != nil {
				return err
			}
			return os.WriteFile(at("gone"), nil, 0o644)
		})
	})
}

// links asks about links to folders. If none can be made, it asks nothing more.
func (r *recorder) links(at func(string) string) {
	err := r.try("link.folder", func() error {
		for _, name := range []string{"first", "second"} {
			if err := os.Mkdir(at(name), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(at("second"), "file"), []byte("2"), 0o644); err != nil {
			return err
		}
		return linked("first", at("link"))
	})
	if err != nil {
		return
	}

	// Whether a link can be put in the place of another one in one step.
	_ = r.try("link.replace", func() error {
		if err := linked("second", at("fresh")); err != nil {
			return err
		}
		return os.Rename(at("fresh"), at("link"))
	})
	_ = r.try("link.read", func() error {
		if err := linked("second", at("other")); err != nil {
			return err
		}
		_, err := os.ReadFile(filepath.Join(at("other"), "file"))
		return err
	})
}

// linked makes a symbolic link and reads it, because Wine 8 reports success and makes nothing.
func linked(target, link string) error {
	if err := os.Symlink(target, link); err != nil {
		return err
	}
	got, err := os.Readlink(link)
	if err == nil && got != target {
		err = fmt.Errorf("the link leads to %q", got)
	}
	return err
}
