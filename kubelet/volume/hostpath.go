package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/kubelet/volume/paths"
)

// hostPathKind is the kind of volumes that are a file or folder of the node. They outlive the pod.
type hostPathKind struct{ noFolder }

func (hostPathKind) of(v *v1.Volume) bool { return v.HostPath != nil }

func (hostPathKind) path(j job) (string, error) {
	return paths.CleanHostPath(j.volume.HostPath.Path, j.windows)
}

// beforeStart is prepare, once more: what the path names can go away while the pod lives. Without this a runtime makes
// a folder in its place.
func (k hostPathKind) beforeStart(j job) error { return k.prepare(context.Background(), j) }

// prepare checks that the path is of the type that the volume names, and creates it if the type asks for that.
func (k hostPathKind) prepare(_ context.Context, j job) error {
	p, err := k.path(j)
	if err != nil {
		return err
	}
	s := j.volume.HostPath
	want := v1.HostPathUnset
	if s.Type != nil {
		want = *s.Type
	}
	if want == v1.HostPathUnset || j.windows && strings.HasPrefix(p, `\\.\pipe\`) {
		return nil
	}

	info, err := os.Stat(p)
	switch {
	case os.IsNotExist(err) && want == v1.HostPathDirectoryOrCreate:
		return makeDirectory(p)
	case os.IsNotExist(err) && want == v1.HostPathFileOrCreate:
		return makeFile(p)
	case err != nil && j.windows && want == v1.HostPathSocket:
		info, err = os.Lstat(p) // a socket is a reparse point, which some builds cannot stat
	}

	if err == nil && typeMatches(want, info.Mode()) {
		return nil
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	return fmt.Errorf("hostPath type check failed: %s is not %s", s.Path, typeWords(want))
}

// typeMatches reports whether a file of this mode is of type t. On Windows a socket may appear as an irregular file,
// because Go does not know every reparse point as a socket.
func typeMatches(t v1.HostPathType, mode os.FileMode) bool {
	switch t {
	case v1.HostPathDirectory, v1.HostPathDirectoryOrCreate:
		return mode.IsDir()
	case v1.HostPathFile, v1.HostPathFileOrCreate:
		return mode.IsRegular()
	case v1.HostPathSocket:
		return mode&os.ModeSocket != 0 || mode&os.ModeIrregular != 0
	case v1.HostPathCharDev:
		return mode&os.ModeCharDevice != 0
	case v1.HostPathBlockDev:
		return mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0
	}
	return false
}

// typeWords returns what the error says that the path is not.
func typeWords(t v1.HostPathType) string {
	switch t {
	case v1.HostPathDirectory, v1.HostPathDirectoryOrCreate:
		return "a directory"
	case v1.HostPathFile, v1.HostPathFileOrCreate:
		return "a file"
	case v1.HostPathSocket:
		return "a socket file"
	case v1.HostPathCharDev:
		return "a character device"
	case v1.HostPathBlockDev:
		return "a block device"
	}
	return fmt.Sprintf("of a known type (%q)", t)
}

// makeDirectory and makeFile make what the types DirectoryOrCreate and FileOrCreate ask for.
func makeDirectory(p string) error {
	if err := os.MkdirAll(p, 0o755); err != nil {
		return fmt.Errorf("making host path: %w", err)
	}
	return nil
}

func makeFile(p string) error {
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDONLY|beneath.NoWait, 0o644) // a named pipe may be there by now
	if err != nil {
		return fmt.Errorf("making host path in %s: %w", filepath.Dir(p), err)
	}
	return f.Close()
}
