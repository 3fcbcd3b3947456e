package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/join/install"
)

// Programs of a version. kubelet.exe is porthole.exe under another name.
const (
	portholeExe = "porthole.exe"
	kubeletExe  = "kubelet.exe"
	proxyExe    = "kube-proxy.exe"
)

// pluginNames are the CNI plugins that the archive may have.
var pluginNames = []string{"win-bridge.exe", "win-overlay.exe", "wincni.exe", "ovn_cni.exe"}

// source is what the folder of the archive has.
type source struct {
	// programs and plugins are the paths of the files by the names under which they are installed.
	programs, plugins map[string]string
	sums              map[string]string // hash by path, of all these
	id                string            // of the version's folder
}

// SourceFiles are the paths of the programs in the folder of an archive, with slashes. Not all must exist.
func SourceFiles() []string {
	list := []string{portholeExe, proxyExe}
	for _, name := range pluginNames {
		list = append(list, "cni/"+name, name)
	}
	return list
}

// readSource finds the programs in the folder of an unpacked archive and checks them by its SHA256SUMS. A folder
// without that file, as one that somebody built, is taken as it is; upgrade refuses it. Plugins may be in the folder
// cni or beside the programs.
func readSource(dir, version string) (source, error) {
	s := source{programs: map[string]string{}, plugins: map[string]string{}, sums: map[string]string{}}
	listed, err := install.ReadSums(filepath.Join(dir, install.SumsFile))
	if err != nil {
		return s, err
	}

	add := func(into map[string]string, name string, places ...string) error {
		for _, place := range places {
			path := filepath.Join(dir, filepath.FromSlash(place))
			sum, err := sumOfFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if want, given := listed[place]; given && want != sum {
				return fmt.Errorf("%s is damaged: its SHA-256 is %s, and %s says %s: unpack the archive again", path,
					sum, install.SumsFile, want)
			}
			into[name], s.sums[path] = path, sum
			return nil
		}
		return nil
	}
	errs := []error{add(s.programs, portholeExe, portholeExe), add(s.programs, proxyExe, proxyExe)}
	for _, name := range pluginNames {
		errs = append(errs, add(s.plugins, name, "cni/"+name, name))
	}
	if err := errors.Join(errs...); err != nil {
		return s, fmt.Errorf("reading the programs in %s: %w", dir, err)
	}

	for _, name := range []string{portholeExe, proxyExe} {
		if s.programs[name] == "" {
			return s,
				fmt.Errorf(
					"%s is not in %s: start porthole.exe in the folder of the unpacked archive, or name the folder with --source", name, dir)
		}
	}
	s.programs[kubeletExe] = s.programs[portholeExe]
	for name, path := range s.plugins { // the folder of a version is a whole archive, from which join can run again
		s.programs[filepath.Join("cni", name)] = path
	}
	var all []string
	for _, name := range sortedKeys(s.programs) {
		all = append(all, name, s.sums[s.programs[name]])
	}
	s.id = version + "-" + sumOf([]byte(strings.Join(all, "\n")))[:install.VersionDigits]
	return s, nil
}

// installed is a step that keeps copies of programs in a folder.
type installed struct {
	id  string
	dir string
	// from are the files by the names that they get, with folders; sums are the hashes of these files. Undo needs
	// neither.
	from, sums map[string]string
	// tree is a folder of ours alone that Undo removes with all that is in it. If it is "", Undo removes the programs
	// of dir that are in all.
	tree string
	all  []string
}

// ID names the step.
func (s installed) ID() string { return s.id }

// Wanted returns the hash of each program by its full path.
func (s installed) Wanted() any {
	out := map[string]string{}
	for name, from := range s.from {
		out[filepath.Join(s.dir, name)] = s.sums[from]
	}
	return out
}

// Observe returns the hash of each of the programs that exists.
func (s installed) Observe(context.Context) (any, error) {
	out := map[string]string{}
	for name := range s.from {
		path := filepath.Join(s.dir, name)
		sum, err := sumOfFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[path] = sum
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// Apply copies the programs that are missing or differ. Windows does not let a running program be overwritten, but
// lets it be renamed: the old file is moved away first.
func (s installed) Apply(context.Context) error {
	done := map[string]string{} // installed path by source: a program with two names is stored once
	for _, name := range sortedKeys(s.from) {
		from, to := s.from[name], filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if sum, err := sumOfFile(to); err == nil && sum == s.sums[from] {
			done[from] = to
			continue
		}
		if err := s.install(from, to, done[from]); err != nil {
			return fmt.Errorf("installing %s: %w", to, err)
		}
		done[from] = to
	}
	return nil
}

// install makes the file to with the content of from. If twin is not "", it has that content, and to becomes a second
// name of it.
func (s installed) install(from, to, twin string) error {
	temp := to + ".new"
	if err := removeFile(temp); err != nil {
		return err
	}
	linked := false
	if twin != "" {
		linked = os.Link(twin, temp) == nil // where this is not possible there are two copies
	}
	if !linked {
		if err := copyFile(from, temp); err != nil {
			return err
		}
	}

	if _, err := os.Stat(to); err == nil {
		_ = os.Remove(to + ".old") // it may still run; the rename tells
		if err := os.Rename(to, to+".old"); err != nil {
			return err
		}
	}
	if err := atomicfile.Replace(temp, to); err != nil {
		return err
	}
	_ = os.Remove(to + ".old") // one that runs is removed with the next change, or by leave
	return nil
}

// copyFile copies a file and flushes it to the disk.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// Undo removes the programs, except those that are as they were before the first Apply.
func (s installed) Undo(_ context.Context, before []byte) error {
	if s.tree != "" {
		return errors.Join(removePrograms(s.tree), removeEmpty(filepath.Dir(s.tree)))
	}
	var had map[string]string
	if err := json.Unmarshal(before, &had); err != nil {
		return fmt.Errorf("reading what was there before: %w", err)
	}
	var errs []error
	for _, name := range s.all {
		path := filepath.Join(s.dir, name)
		errs = append(errs, removeFile(path+".new"), removeProgram(path+".old"))
		if sum, err := sumOfFile(path); err != nil || sum != had[path] {
			errs = append(errs, removeProgram(path))
		}
	}
	return errors.Join(append(errs, removeEmpty(s.dir))...)
}

// removePrograms removes a folder with all that is in it. It goes on after what cannot be removed.
func removePrograms(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			errs = append(errs, removePrograms(path))
		} else {
			errs = append(errs, removeProgram(path))
		}
	}
	return errors.Join(append(errs, removeEmpty(dir))...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
