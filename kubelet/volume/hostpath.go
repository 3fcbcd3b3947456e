package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// prepareHostPath checks the type of a host path, and makes it where the type says so.
func (m *Manager) prepareHostPath(s *v1.HostPathVolumeSource) error {
	p, err := CleanHostPath(s.Path, m.windows)
	if err != nil {
		return err
	}
	kind := v1.HostPathUnset
	if s.Type != nil {
		kind = *s.Type
	}
	if kind == v1.HostPathUnset || m.windows && strings.HasPrefix(p, `\\.\pipe\`) {
		return nil
	}
	info, err := os.Stat(p)
	switch {
	case os.IsNotExist(err) && kind == v1.HostPathDirectoryOrCreate:
		return makeDirectory(p)
	case os.IsNotExist(err) && kind == v1.HostPathFileOrCreate:
		return makeFile(p)
	case err != nil && m.windows && kind == v1.HostPathSocket:
		info, err = os.Lstat(p) // a socket is a reparse point, which some builds cannot stat
	}
	if err == nil && typeMatches(kind, info.Mode()) {
		return nil
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	return fmt.Errorf("hostPath type check failed: %s is not %s", s.Path, kindWords(kind))
}

func typeMatches(kind v1.HostPathType, mode os.FileMode) bool {
	switch kind {
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

func kindWords(kind v1.HostPathType) string {
	switch kind {
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
	return fmt.Sprintf("of a known type (%q)", kind)
}

func makeDirectory(p string) error {
	if err := os.MkdirAll(p, 0o755); err != nil {
		return fmt.Errorf("making host path: %w", err)
	}
	return nil
}

func makeFile(p string) error {
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return fmt.Errorf("making host path in %s: %w", filepath.Dir(p), err)
	}
	return f.Close()
}
