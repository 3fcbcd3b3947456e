package storagedriver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sourceOf returns the ID of the volume that another one is to be a copy of; empty: it is made empty.
func sourceOf(r *csi.CreateVolumeRequest) (string, error) {
	source := r.GetVolumeContentSource()
	if source == nil {
		return "", nil
	}
	if id := source.GetVolume().GetVolumeId(); id != "" {
		return id, nil
	}
	return "", status.Error(codes.InvalidArgument, "volumes are made empty or as copies of volumes")
}

// fill copies the volume source into v, which is empty. The caller holds d.mu.
func (d *Driver) fill(v *Volume, source string) error {
	from := d.volumes[source]
	switch {
	case from == nil:
		return status.Errorf(codes.NotFound, "there is no volume %q to copy", source)
	case from.Block != v.Block:
		return status.Errorf(codes.InvalidArgument, "volume %s: raw device %t, the copy: raw device %t", source,
			from.Block, v.Block)
	case v.Bytes < from.Bytes:
		return status.Errorf(codes.OutOfRange, "%d bytes are less than the %d of volume %s", v.Bytes, from.Bytes,
			source)
	}

	err := os.RemoveAll(d.folder(v.ID)) // an earlier attempt may have left something
	if err == nil {
		err = copyFolder(d.folder(source), d.folder(v.ID))
	}
	if err == nil && v.Block {
		err = copyBlock(d.folder(source)+".img", d.folder(v.ID)+".img")
	}
	if err != nil {
		return status.Errorf(codes.Internal, "copying volume %s: %v", source, err)
	}
	return nil
}

// copyFolder copies all that is in a folder, with modes and owners, but not with times. Several names of one file
// become several files. What is neither a file, a folder nor a link is an error.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return copyOne(path, filepath.Join(to, name), info)
	})
}

// copyOne copies one entry, a folder without what is in it, with its owner and mode.
func copyOne(from, to string, info fs.FileInfo) error {
	switch info.Mode().Type() {
	case 0:
		if err := copyFile(from, to); err != nil {
			return err
		}
	case fs.ModeDir:
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); err != nil {
			return err
		}
		return setOwner(to, info)
	default:
		return fmt.Errorf("%s is neither a file, a folder nor a link", from)
	}

	if err := setOwner(to, info); err != nil { // this takes set-user-ID away, so that the mode comes after it
		return err
	}
	return os.Chmod(to, info.Mode())
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
