package wine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// TemplateOptions describe the prefix that hosts of one build share.
type TemplateOptions struct {
	Dir    string // where it is kept, required
	Build  Build  // required
	DLLDir string // DLLs and programs that go into system32, required
	Owner  uint32 // user that the prefixes of hosts belong to, and their programs run as; 0: root
}

// stampName is written last; a template without it is unfinished.
const stampName = ".porthole-template"

// TemplateDir is where templates are kept under the state folder.
func TemplateDir(stateDir string, build int) string {
	return filepath.Join(stateDir, "wine", fmt.Sprintf("template-%d", build))
}

// TemplateStamps are the files of a state folder whose absence has EnsureTemplate make templates anew.
func TemplateStamps(stateDir string) ([]string, error) {
	return filepath.Glob(filepath.Join(stateDir, "wine", "template-*", stampName))
}

// EnsureTemplate makes the template, which takes about ten seconds, or finds it as it should be. A template of another
// make (other Wine, other settings) is made again unless a prefix is mounted on it. Several processes may call it at
// the same time.
func (t Tools) EnsureTemplate(ctx context.Context, o TemplateOptions) error {
	if err := os.MkdirAll(filepath.Dir(o.Dir), 0o755); err != nil {
		return fmt.Errorf("making Wine template %s: %w", o.Dir, err)
	}
	unlock, err := platform.LockFile(o.Dir+".lock", 0o644)
	if err != nil {
		return fmt.Errorf("making Wine template %s: %w", o.Dir, err)
	}
	defer unlock()
	stamp, err := t.templateStamp(o)
	if err != nil {
		return fmt.Errorf("making Wine template %s: %w", o.Dir, err)
	}
	have, err := os.ReadFile(filepath.Join(o.Dir, stampName))
	if err == nil && (string(have) == stamp || IsLower(o.Dir)) {
		return nil
	}
	if err := t.makeTemplate(ctx, o, stamp); err != nil {
		return fmt.Errorf("making Wine template %s: %w", o.Dir, err)
	}
	return nil
}

// makeTemplate makes a template beside the old one and then puts it in its place, so that a run that is cut short
// leaves the old one or none. The prefix is tried once more if it fails; errBootHangs says what was seen.
func (t Tools) makeTemplate(ctx context.Context, o TemplateOptions, stamp string) error {
	temp := Prefix{Dir: o.Dir + ".new"}
	err := t.boot(ctx, temp, slow.Limit(bootLimit))
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Wine made no prefix, trying once more", "dir", temp.Dir)
		err = t.boot(ctx, temp, slow.Limit(bootLimit))
	}
	if err != nil {
		return err
	}

	steps := []func() error{
		func() error { return trimFile(filepath.Join(temp.Dir, "system.reg")) },
		func() error { return appendFile(filepath.Join(temp.Dir, "system.reg"), o.Build.registry()) },
		func() error { return appendFile(filepath.Join(temp.Dir, "user.reg"), userRegistry+stubRegistry()) },
		func() error {
			return os.WriteFile(filepath.Join(temp.Dir, ".update-timestamp"), []byte("disable\n"), 0o644)
		},
		func() error { return replaceLinks(filepath.Join(temp.DriveC(), "users")) },
		func() error { return keepBuiltin(temp, "iphlpapi.dll", "wineiphl.dll") },
		func() error { return keepBuiltin(temp, "sechost.dll", "winesech.dll") },
		func() error { return keepBuiltin(temp, "combase.dll", "winecomb.dll") },
		func() error { return keepBuiltin(temp, "net.exe", "builtin/net.exe") },
		func() error { return keepBuiltin(temp, "netapi32.dll", "builtin/netapi32.dll") },
		func() error { return keepBuiltin(temp, "nsi.dll", "builtin/nsi.dll") },
		func() error { return keepBuiltin(temp, "virtdisk.dll", "builtin/virtdisk.dll") },
		func() error { return keepBuiltin(temp, "ws2_32.dll", "builtin/ws2_32.dll") },
		func() error { return skipTimeZone(temp) },
		func() error { return withoutStubs(temp) },
		func() error { return makeDriverStore(temp) },
		func() error { _, err := InstallDLLs(temp, o.DLLDir); return err },
		func() error { return t.checkPipes(ctx, temp) },
		func() error { return os.WriteFile(filepath.Join(temp.Dir, stampName), []byte(stamp), 0o644) },
		// hosts have wineservers of their own
		func() error { return os.RemoveAll(filepath.Join(temp.Dir, serverName)) },
		func() error { return ownTree(temp.Dir, temp.Dir, o.Owner) },
		func() error { return os.RemoveAll(o.Dir) },
		func() error { return os.Rename(temp.Dir, o.Dir) },
	}

	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// trimFile takes what Server Core does not have out of a system hive.
func trimFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(trim(string(text))), 0o644)
}

// bootLimit is how long Wine may take to make a prefix: ten seconds alone, thirty on a machine with much to do.
const bootLimit = 90 * time.Second

// errBootHangs was seen once with Wine 8.0: all files and the registry were there, and wineboot or one of the services
// that it starts waited for ever. Once, on a busy machine, a program that wineboot started did not find kernel32.dll
// in the new prefix (status c0000135), and wineboot ended with exit code 53. Both are tried once more, from an empty
// folder.
var errBootHangs = errors.New("wineboot does not end")

// boot makes the prefix from nothing within limit, and leaves no program of it running.
func (t Tools) boot(ctx context.Context, p Prefix, limit time.Duration) error {
	if err := os.RemoveAll(p.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	boot := t.Command(bounded, p, "wineboot", "-i")
	boot.Dir = "/"
	out, err := boot.CombinedOutput() // also waits for what wineboot started, as Command tells
	switch {
	case bounded.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("%w within %v: %s", errBootHangs, limit, bytes.TrimSpace(out))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		err = fmt.Errorf("wineboot: %w: %s", err, bytes.TrimSpace(out))
	default:
		err = t.StopServer(bounded, p)
	}

	// What hangs would keep the files open, and its wineserver the socket.
	err = errors.Join(err, p.EndAll(10*time.Second))
	if dir, e := p.socketDir(); e == nil {
		os.RemoveAll(dir)
	}
	return err
}

// templateStamp changes with everything that a template is made from.
func (t Tools) templateStamp(o TemplateOptions) (string, error) {
	h := sha256.New()
	server, err := os.Stat(t.Server)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(h, "%s %d %d %d\n%s\n", t.Server, server.Size(), server.ModTime().Unix(), o.Owner,
		o.Build.registry()+userRegistry+trimVersion+zoneVersion+stubsVersion)
	dlls, err := dllFiles(o.DLLDir)
	if err != nil {
		return "", err
	}
	for _, path := range dlls {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %x\n", filepath.Base(path), sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// InstallDLLs copies our DLLs and programs into the prefix's system32, those that differ only, and tells how many that
// were.
func InstallDLLs(p Prefix, dllDir string) (changed int, err error) {
	files, err := dllFiles(dllDir)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return changed, err
		}
		target := "drive_c/windows/system32/" + filepath.Base(path)
		if have, err := p.ReadFile(target); err == nil && string(have) == string(data) {
			continue
		}
		if err := p.WriteFile(target, data, 0o755); err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}

func dllFiles(dir string) ([]string, error) {
	dlls, err := filepath.Glob(filepath.Join(dir, "*.dll"))
	if err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(dir, "*.[ec][xo][em]")) // .exe and .com
	if err != nil {
		return nil, err
	}
	if len(dlls) == 0 || len(programs) == 0 {
		return nil, fmt.Errorf("no DLLs of the emulated host in %s (make dll builds them)", dir)
	}
	return append(dlls, programs...), nil
}

// keepBuiltin copies a library of Wine's own to where our library of that name finds it. Under another name Wine looks
// for a built-in library of the new name, finds none, and loads the copy. In another folder it loads its built-in one
// with the Linux half that belongs to it, which a copy under another name would miss (both seen with Wine 8.0).
func keepBuiltin(p Prefix, name, copyName string) error {
	dir := filepath.Join(p.DriveC(), "windows", "system32")
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	target := filepath.Join(dir, copyName)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o755)
}

// replaceLinks makes folders of the links that Wine puts into a user's profile.
func replaceLinks(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Mkdir(path, 0o755)
	})
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
