package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/Microsoft/go-winio/pkg/bindfilter"
	"golang.org/x/sys/windows"
)

// layer is the volume of a layer, and the folder in which it lies.
const (
	layer       = `\\?\Volume{6a3f8b1e-1c52-5d0f-9f0e-0123456789ab}`
	layerFolder = `C:\System Volume Information\{6a3f8b1e-1c52-5d0f-9f0e-0123456789ab}`
)

// mountPoint mounts the volume of a layer on a folder, as hcsshim does for HostProcess containers, and takes it away.
func mountPoint() error {
	dir, err := os.MkdirTemp("", "points")
	if err != nil {
		return err
	}
	point := filepath.Join(dir, "point")
	full := filepath.Join(dir, "full")
	err = errors.Join(os.MkdirAll(layerFolder, 0o755),
		os.WriteFile(filepath.Join(layerFolder, "in the layer"), []byte("content"), 0o644),
		os.Mkdir(point, 0o755), os.MkdirAll(filepath.Join(full, "inner"), 0o755))
	if err != nil {
		return err
	}
	// The same file by the volume's name and by the folder in which it lies.
	for _, file := range []string{layer + `\in the layer`, layerFolder + `\in the layer`} {
		if data, err := os.ReadFile(file); err != nil || string(data) != "content" {
			return fmt.Errorf("%s: %q, %v", file, data, err)
		}
	}

	// Names without, or with only one, of the backslashes; a volume that is not there; a folder
	// with something in it.
	for _, refused := range []struct {
		point, volume string
		want          windows.Errno
	}{
		{point, layer + `\`, windows.ERROR_INVALID_NAME},
		{point + `\`, layer, windows.ERROR_INVALID_NAME},
		{point + `\`, `\\?\Volume{6a3f8b1e-1c52-5d0f-9f0e-000000000000}\`, windows.ERROR_INVALID_PARAMETER},
		{full + `\`, layer + `\`, windows.ERROR_DIR_NOT_EMPTY},
	} {
		if err := mountVolume(refused.point, refused.volume); !errors.Is(err, refused.want) {
			return fmt.Errorf("mounting %s on %s: %v, want %v", refused.volume, refused.point, err, refused.want)
		}
	}
	if err := mountVolume(point+`\`, layer+`\`); err != nil {
		return fmt.Errorf("mounting: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(point, "in the layer")); err != nil || string(data) != "content" {
		return fmt.Errorf("below the mount point: %q, %v", data, err)
	}

	name, err := windows.UTF16PtrFromString(point + `\`)
	if err != nil {
		return err
	}
	if err := windows.DeleteVolumeMountPoint(name); err != nil {
		return fmt.Errorf("unmounting: %v", err)
	}
	if entries, err := os.ReadDir(point); err != nil || len(entries) != 0 {
		return fmt.Errorf("after unmounting: %v, %v", entries, err)
	}
	if _, err := os.Stat(layer + `\in the layer`); err != nil {
		return fmt.Errorf("what was mounted: %v", err)
	}
	if err := windows.DeleteVolumeMountPoint(name); !errors.Is(err, windows.ERROR_NOT_A_REPARSE_POINT) {
		return fmt.Errorf("unmounting again: %v", err)
	}
	return errors.Join(os.RemoveAll(dir), os.RemoveAll(layerFolder))
}

// mountVolume takes both names as they are, with or without a backslash at the end.
func mountVolume(point, volume string) error {
	p, err := windows.UTF16PtrFromString(point)
	if err != nil {
		return err
	}
	v, err := windows.UTF16PtrFromString(volume)
	if err != nil {
		return err
	}
	return windows.SetVolumeMountPoint(p, v)
}

// bindings asks the bind filter what containerd.exe does at the end of each container.
func bindings() error {
	if err := bindfilter.RemoveFileBinding(`C:\windows`); !errors.Is(err, windows.ERROR_NOT_FOUND) {
		return fmt.Errorf("removing a binding that is not there: %v", err)
	}
	if list, err := bindfilter.GetBindMappings(`C:\`); err != nil || len(list) != 0 {
		return fmt.Errorf("bindings: %v, %v", list, err)
	}
	if err := bindfilter.ApplyFileBinding(`C:\windows\bound`, `C:\windows`, true); !errors.Is(err,
		windows.ERROR_NOT_SUPPORTED) {
		return fmt.Errorf("making a binding: %v", err)
	}
	return nil
}

// console allocates a console, as containerd.exe does when it is a service, and ends without one.
func console() error {
	if done, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("AllocConsole").Call(); done == 0 {
		return err
	}
	return nil
}
