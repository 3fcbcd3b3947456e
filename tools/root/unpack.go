package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
)

// unpack writes the files of a package that hosts need below the root. All belong to whoever calls; none has rights of
// its own.
func unpack(ctx context.Context, file string, root *os.Root) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	packed, err := member(bufio.NewReader(f), "data.tar.xz")
	if err != nil {
		return err
	}
	xz := exec.CommandContext(ctx, "xz", "-dc")
	xz.Stdin = packed
	out, err := xz.StdoutPipe()
	if err != nil {
		return err
	}
	if err := xz.Start(); err != nil {
		return fmt.Errorf("xz (Debian's package xz-utils): %w", err)
	}
	err = unpackTar(tar.NewReader(out), root)
	if err != nil {
		out.Close() // xz ends
	}
	return errors.Join(err, xz.Wait())
}

// member finds a member of an archive of ar(5), as packages are (deb(5)).
func member(r *bufio.Reader, name string) (io.Reader, error) {
	const magic, headSize = "!<arch>\n", 60
	head := make([]byte, headSize)
	if _, err := io.ReadFull(r, head[:len(magic)]); err != nil || string(head[:len(magic)]) != magic {
		return nil, errors.New("it is no package of Debian")
	}
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, fmt.Errorf("it has no %s", name)
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(head[48:58])), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the size of one of its members is %q", head[48:58])
		}
		if strings.TrimRight(string(head[:16]), " /") == name {
			return io.LimitReader(r, size), nil
		}
		if _, err := r.Discard(int(size + size%2)); err != nil {
			return nil, fmt.Errorf("it has no %s", name)
		}
	}
}

func unpackTar(r *tar.Reader, root *os.Root) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if name == "." || !needed(name, h.Typeflag == tar.TypeDir) {
			continue
		}
		if err := put(r, h, name, root); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func put(r io.Reader, h *tar.Header, name string, root *os.Root) error {
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // of another package
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(strings.TrimPrefix(h.Linkname, "./")), name)
	case tar.TypeReg:
	default:
		return fmt.Errorf("it is a file of kind %q", h.Typeflag)
	}

	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	err = errors.Join(err, f.Chmod(fs.FileMode(h.Mode)&0o755), f.Close())
	// By the time of its wineserver a template of emulator/wine knows its Wine.
	return errors.Join(err, root.Chtimes(name, h.ModTime, h.ModTime))
}
