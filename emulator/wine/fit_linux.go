package wine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/slow"
)

// fitLimit is how long a Wine may take to say which mends fit: 0.05 s alone.
const fitLimit = 30 * time.Second

// known is what is known of a Wine, in a file of the state folder.
type known struct {
	Stamp   string // of the Wine and of our DLL
	Version string
	Unfit   []Unfit
	Mends   []Mend `json:",omitempty"` // nil: nobody has asked
}

// CheckFit returns an UnfitError if this Wine is not one that our DLLs in dllDir can mend. It asks a program, which
// runs without any prefix, and keeps the answer in the state folder, if hosts have been made there, until Wine or our
// DLL changes. It makes nothing else.
func (t Tools) CheckFit(ctx context.Context, stateDir, dllDir string) error {
	k, err := t.know(ctx, fitFile(stateDir), dllDir)
	if err != nil {
		return err
	}
	if len(k.Unfit) > 0 {
		return &UnfitError{Version: k.Version, Loader: t.Loader, Unfit: k.Unfit}
	}
	return nil
}

// KnownMends is Mends, which it asks once for a Wine and our DLL, and the version of that Wine. o.Dir is in the state
// folder.
func (t Tools) KnownMends(ctx context.Context, stateDir string, o TemplateOptions) (version string, list []Mend,
	err error) {
	file := fitFile(stateDir)
	k, err := t.know(ctx, file, o.DLLDir)
	if err != nil || k.Mends != nil {
		return k.Version, k.Mends, err
	}
	if k.Mends, err = t.Mends(ctx, o); err != nil {
		return k.Version, nil, err
	}
	return k.Version, k.Mends, k.write(file)
}

func fitFile(stateDir string) string { return filepath.Join(stateDir, "wine", "fit.json") }

// know reads what the file knows of this Wine, or asks.
func (t Tools) know(ctx context.Context, file, dllDir string) (known, error) {
	stamp, err := t.fitStamp(dllDir)
	if err != nil {
		return known{}, fmt.Errorf("asking which mends fit this Wine: %w", err)
	}
	if k, ok := readKnown(file, stamp); ok {
		return k, nil
	}
	k := known{Stamp: stamp, Version: t.version(ctx)}
	if k.Unfit, err = t.unfit(ctx, dllDir); err != nil {
		return known{}, fmt.Errorf("asking which mends fit this Wine, %s (%s): %w; %s", k.Version, t.Loader, err, cure)
	}
	return k, k.write(file)
}

// readKnown returns what is known of the Wine with that stamp. A file that is damaged knows nothing.
func readKnown(file, stamp string) (k known, ok bool) {
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &k) != nil {
		return known{}, false
	}
	return k, k.Stamp == stamp && k.Version != ""
}

func (k known) write(file string) error {
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(data, '\n'), 0o644)
}

// fitStamp changes with the Wine and with our DLL.
func (t Tools) fitStamp(dllDir string) (string, error) {
	h := sha256.New()
	for _, name := range append([]string{t.Loader, t.Server, filepath.Join(dllDir, mendsProgram)}, t.libraries()...) {
		st, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d %d\n", name, st.Size(), st.ModTime().UnixNano())
	}
	for _, name := range []string{mendDLL, mended} {
		if err := addFile(h, filepath.Join(dllDir, name)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addFile(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w (make dll builds it)", err)
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

// libraries are the paths of Wine's libraries in which mends replace functions. Debian and Wine's own `make install`
// put them into different folders.
func (t Tools) libraries() (files []string) {
	loader, err := filepath.EvalSymlinks(t.Loader)
	if err != nil {
		return nil
	}
	dir := filepath.Dir(loader)
	for _, folder := range []string{".", "../x86_64-linux-gnu/wine", "../lib/wine", "../lib64/wine",
		"../lib/x86_64-linux-gnu/wine"} {
		for _, name := range []string{"x86_64-unix/ntdll.so", "x86_64-windows/ntdll.dll", "x86_64-windows/kernel32.dll",
			"x86_64-windows/kernelbase.dll", "x86_64-windows/advapi32.dll"} {
			if path := filepath.Join(dir, folder, name); isThere(path) {
				files = append(files, path)
			}
		}
	}
	return files
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// version is what Wine calls itself, such as "wine-10.0 (Debian 10.0~repack-6)".
func (t Tools) version(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(fitLimit))
	defer cancel()
	out, err := exec.CommandContext(ctx, t.Loader, "--version").Output()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return "a Wine that does not say its version"
	}
	return string(bytes.TrimSpace(out))
}

// unfit asks which mends do not fit, in a prefix that has nothing but our DLL and the program that asks. Wine finds
// its own libraries there because of WINEBOOTSTRAPMODE, and makes no prefix because it finds no wineboot.exe (seen
// with Wine 8.0 and 10.0).
func (t Tools) unfit(ctx context.Context, dllDir string) (list []Unfit, err error) {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(fitLimit))
	defer cancel()
	dir, err := os.MkdirTemp("", "porthole-fit-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := Prefix{Dir: dir}
	if err := makeBare(p, dllDir); err != nil {
		return nil, err
	}
	env := append(overridden(overridden(t.Env(p), "bcryptprimitives", "n"), "wineboot.exe", ""), "WINEBOOTSTRAPMODE=1")
	stop, err := t.startBare(ctx, p, env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()

	cmd := t.Command(ctx, p, `C:\windows\system32\`+filepath.Base(mended))
	cmd.Env = env
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(says.Bytes()))
	}
	return parseUnfit(string(out))
}

// makeBare makes a prefix by hand.
func makeBare(p Prefix, dllDir string) error {
	system := filepath.Join(p.DriveC(), "windows", "system32")
	err := errors.Join(os.MkdirAll(system, 0o755), os.Mkdir(filepath.Join(p.Dir, "dosdevices"), 0o755))
	if err == nil {
		err = os.Symlink("../drive_c", filepath.Join(p.Dir, "dosdevices", "c:"))
	}
	for _, name := range []string{mendDLL, mended} {
		data, e := os.ReadFile(filepath.Join(dllDir, name))
		if e == nil {
			e = os.WriteFile(filepath.Join(system, filepath.Base(name)), data, 0o755)
		}
		err = errors.Join(err, e)
	}
	return err
}

// startBare starts the wineserver of a prefix in which nothing else is to start. stop ends it and the programs of the
// prefix.
func (t Tools) startBare(ctx context.Context, p Prefix, env []string) (stop func() error, err error) {
	server := t.ServerCommand(p)
	server.Env = env
	if err := server.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		socket, e := p.socketDir()
		_ = server.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = server.Wait()                          // it was told to end
		err := p.EndAll(10 * time.Second)
		return errors.Join(err, e, removeSocket(socket))
	}
	if err := p.waitForServer(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// removeSocket removes the folder that socketDir returned, of a prefix that goes away, and the one that it is in, if
// Debian's Wine has made that for this prefix alone.
func removeSocket(dir string) error {
	if dir == "" {
		return nil
	}
	err := os.RemoveAll(dir)
	_ = os.Remove(filepath.Dir(dir)) // others keep more in it
	return err
}

// overridden is an environment in which Wine takes the library from where order says: n is ours, b Wine's own.
func overridden(env []string, library, order string) []string {
	const name = "WINEDLLOVERRIDES="
	var changed []string
	for _, v := range env {
		list, ok := strings.CutPrefix(v, name)
		if !ok {
			changed = append(changed, v)
			continue
		}

		var groups []string
		for group := range strings.SplitSeq(list, ";") {
			names, how, _ := strings.Cut(group, "=")
			var rest []string
			for n := range strings.SplitSeq(names, ",") {
				if n != library {
					rest = append(rest, n)
				}
			}
			if len(rest) > 0 {
				groups = append(groups, strings.Join(rest, ",")+"="+how)
			}
		}
		changed = append(changed, name+strings.Join(append(groups, library+"="+order), ";"))
	}
	return changed
}
