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

	"porthole.dev/porthole/internal/ownroot"
	"porthole.dev/porthole/internal/platform"
)

type options struct {
	dir  string // where root folders are kept, required
	lock string // text of the lock, required
	list []*pkg // its packages, required
	// programs are paths of files that the root has in usr/sbin, beside what packages have.
	programs []string
	mirror   func(context.Context) (string, error)                    // required
	newest   func(ctx context.Context, mirror string) ([]*pkg, error) // required
}

// makeRoot makes the root folder of a lock, or finds it, and returns its path. It is made under another name first: one
// that is cut short is never taken for a whole one. Folders of other locks stay, because hosts may run with them.
func makeRoot(ctx context.Context, o options) (string, error) {
	sum, err := o.checksum()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.dir, sum)
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := platform.LockFile(filepath.Join(o.dir, "lock"), 0o644)
	if err != nil {
		return "", err
	}
	defer unlock()
	if ownroot.Check(dir) == nil {
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

	var packages []*pkg
	for _, p := range o.list {
		file, err := download(ctx, mirror, p, o.packages())
		if errors.Is(err, errAbsent) {
			p, file, err = o.newer(ctx, mirror, p)
		}
		if err != nil {
			return err
		}
		if err := unpack(ctx, file, root); err != nil {
			return fmt.Errorf("unpacking package %s: %w", p.name, err)
		}
		packages = append(packages, p)
	}
	if err := o.addPrograms(root); err != nil {
		return err
	}
	if err := finish(ctx, dir, root); err != nil {
		return err
	}
	if err := root.WriteFile("packages", []byte(formatLock(packages)), 0o644); err != nil {
		return err
	}
	return ownroot.Seal(dir)
}

// newer takes the newest version of a package of which the mirror does not have the pinned one any more: Debian keeps
// only the newest, and a build must not fail because a fix has come. Debian's signature covers it.
func (o options) newer(ctx context.Context, mirror string, p *pkg) (*pkg, string, error) {
	list, err := o.newest(ctx, mirror)
	if err != nil {
		return nil, "", fmt.Errorf("package %s %s is not there any more, and its newer version was not found: %w",
			p.name, p.version, err)
	}
	for _, n := range list {
		if n.name == p.name {
			fmt.Fprintf(os.Stderr, "root: package %s %s is not there any more; %s is taken, which Debian has signed. "+
				"`root lock` pins it.\n", p.name, p.version, n.version)
			file, err := download(ctx, mirror, n, o.packages())
			return n, file, err
		}
	}
	return nil, "", fmt.Errorf("package %s %s is not there any more, and has no newer version: "+
		"`root lock` finds what takes its place", p.name, p.version)
}

func (o options) addPrograms(root *os.Root) error {
	for _, name := range o.programs {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := root.MkdirAll("usr/sbin", 0o755); err != nil {
			return err
		}
		if err := root.WriteFile("usr/sbin/"+filepath.Base(name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
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
	"usr/sbin/ovs-vswitchd": "../lib/openvswitch-switch/ovs-vswitchd",
}

// accounts are the users and groups that the packages' installation scripts would add. The numbers are free ones of
// the range that Debian assigns to packages (Debian Policy, 9.2.2).
var accounts = map[string]string{
	"etc/passwd": "frr:x:64990:64990:FRR:/nonexistent:/usr/sbin/nologin\n",
	"etc/group":  "frr:x:64990:\nfrrvty:x:64991:frr\n",
}

// places are folders of the machine's /usr that stay the machine's (internal/ownroot).
var places = []string{"usr/local", "usr/lib/porthole"}

// finish does what the installation of the packages would do, as far as hosts need it.
func finish(ctx context.Context, dir string, root *os.Root) error {
	if err := errors.Join(finishZlib(root), finishLinks(root), stripWindows(root)); err != nil {
		return err
	}
	if err := checkLinks(root.FS()); err != nil {
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
	for _, place := range places { // an archive has no empty folders
		err = errors.Join(err, root.MkdirAll(place, 0o755), root.WriteFile(place+"/.machine", nil, 0o644))
	}
	for name, text := range accounts {
		err = errors.Join(err, root.MkdirAll("etc", 0o755), root.WriteFile(name, []byte(text), 0o644))
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
