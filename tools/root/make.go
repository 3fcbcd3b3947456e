package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"porthole.dev/porthole/internal/platform"
)

type options struct {
	dir    string // where root folders are kept, required
	lock   string // text of the lock, required
	list   []*pkg // its packages, required
	mirror func(context.Context) (string, error)
}

// stampName is written last; a root folder without it is unfinished.
const stampName = ".porthole-root"

// makeRoot makes the root folder of a lock, or finds it, and returns its path. It is made under another name first: one
// that is cut short is never taken for a whole one. Folders of other locks stay, because hosts may run with them.
func makeRoot(ctx context.Context, o options) (string, error) {
	sum := checksum(o.lock)
	dir := filepath.Join(o.dir, sum)
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := platform.LockFile(filepath.Join(o.dir, "lock"), 0o644)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(dir, stampName)); err == nil {
		return dir, nil
	}
	if err := fill(ctx, o, dir+".new"); err != nil {
		return "", fmt.Errorf("making the root folder %s: %w", dir, full(err, o.dir))
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".new", dir)); err != nil {
		return "", fmt.Errorf("making the root folder %s: %w", dir, err)
	}
	return dir, os.RemoveAll(o.packages())
}

// packages is where downloads are until the root folder is made: one that is cut short goes on where it was.
func (o options) packages() string { return filepath.Join(o.dir, "packages") }

func fill(ctx context.Context, o options, dir string) error {
	mirror, err := o.mirror(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755), os.MkdirAll(o.packages(), 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	for _, p := range o.list {
		file, err := download(ctx, mirror, p, o.packages())
		if err != nil {
			return err
		}
		if err := unpack(ctx, file, root); err != nil {
			return fmt.Errorf("unpacking package %s: %w", p.name, err)
		}
	}
	if err := finish(ctx, dir, root); err != nil {
		return err
	}
	return root.WriteFile(stampName, []byte(checksum(o.lock)+"\n"), 0o644)
}

const (
	zlib     = "usr/x86_64-w64-mingw32/lib/zlib1.dll"
	wineZlib = "usr/lib/x86_64-linux-gnu/wine/x86_64-windows/zlib1.dll"
)

// alternatives are names that Debian's installation gives programs.
var alternatives = map[string]string{
	"usr/sbin/iptables": "iptables-nft", "usr/sbin/iptables-save": "iptables-nft-save",
	"usr/sbin/iptables-restore": "iptables-nft-restore", "usr/sbin/ip6tables": "ip6tables-nft",
	"usr/sbin/ip6tables-save": "ip6tables-nft-save", "usr/sbin/ip6tables-restore": "ip6tables-nft-restore",
}

// places are folders of the machine's /usr that stay the machine's (internal/ownroot).
var places = []string{"usr/local", "usr/lib/porthole"}

// finish does what the installation of the packages would do, as far as hosts need it.
func finish(ctx context.Context, dir string, root *os.Root) error {
	if err := errors.Join(finishZlib(root), finishLinks(root)); err != nil {
		return err
	}
	ldconfig := filepath.Join(dir, "usr/sbin/ldconfig")
	if _, err := os.Stat(ldconfig); errors.Is(err, fs.ErrNotExist) {
		return nil // a root folder of a test
	}
	if out, err := exec.CommandContext(ctx, ldconfig, "-r", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("ldconfig: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func finishLinks(root *os.Root) (err error) {
	for name, target := range alternatives {
		if _, e := root.Stat("usr/sbin/" + target); e == nil {
			err = errors.Join(err, root.Symlink(target, name))
		}
	}
	for _, place := range places {
		err = errors.Join(err, root.MkdirAll(place, 0o755))
	}
	return err
}

// finishZlib makes a library of Wine's of zlib1.dll, by the mark of these behind the DOS header, as the installation of
// libwine does. user32.dll does not load without it.
func finishZlib(root *os.Root) error {
	const at, room = 64, 32
	data, err := root.ReadFile(zlib)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a root folder of a test
	}
	if err != nil || len(data) < at+room {
		return errors.Join(err, fmt.Errorf("%s has %d bytes", zlib, len(data)))
	}
	clear(data[at : at+room])
	copy(data[at:], "Wine builtin DLL")
	return root.WriteFile(wineZlib, data, 0o644)
}
