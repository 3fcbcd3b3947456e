package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// writeDeb writes a package of Debian (deb(5)): an archive of ar with a version, the description, and the files.
func writeDeb(out *bytes.Buffer, s software, at int64) error {
	var data bytes.Buffer
	if err := writeFiles(&data, s, at); err != nil {
		return err
	}
	control, err := writeControl(s, at)
	if err != nil {
		return err
	}

	out.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", control}, {"data.tar.gz", data.Bytes()}} {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, at, 0, 0, "100644", len(m.data))
		out.Write(m.data)
		if len(m.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return nil
}

// writeFiles writes the files with all folders on the way to them, as dpkg expects it.
func writeFiles(w io.Writer, s software, at int64) error {
	// dpkg wants each folder before what is in it; sorting by path does that.
	all := slices.Clone(s.files)
	known := map[string]bool{}
	for _, f := range s.files {
		known[f.path] = true
	}
	for _, f := range s.files {
		for i, c := range f.path {
			if dir := f.path[:i]; c == '/' && i > 0 && !known[dir] {
				known[dir] = true
				all = append(all, installed{path: dir, folder: true})
			}
		}
	}
	slices.SortFunc(all, func(a, b installed) int { return cmp.Compare(a.path, b.path) })

	return s.writeTarGz(w, func(t *tar.Writer) error {
		for _, f := range all {
			h := tar.Header{Name: "." + f.path, Mode: f.mode(), Size: int64(len(f.data)), ModTime: time.Unix(at, 0),
				Typeflag: tar.TypeReg, Linkname: f.link, Format: tar.FormatGNU}
			switch {
			case f.folder:
				h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			case f.link != "":
				h.Typeflag = tar.TypeSymlink
			}
			if err := writeMember(t, h, f.data); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeControl returns the archive with the fields of the package (deb-control(5)), the sums of its files and its
// scripts.
func writeControl(s software, at int64) ([]byte, error) {
	var fields, sums, configs bytes.Buffer
	for _, f := range []struct{ name, value string }{
		{"Package", s.name}, {"Version", s.version}, {"Architecture", "amd64"}, {"Maintainer", s.maintainer},
		{"Installed-Size", fmt.Sprint((s.size() + 1023) / 1024)}, {"Section", s.category}, {"Priority", "optional"},
		{"Homepage", s.home},
		{"Provides", withVersions(s.provides)}, {"Conflicts", withVersions(s.conflicts)},
		{"Replaces", withVersions(s.conflicts)},
		{"Recommends", strings.Join(s.recommends, ", ")}, {"Description", s.summary + "\n " + s.description},
	} {
		if f.value != "" {
			fmt.Fprintf(&fields, "%s: %s\n", f.name, f.value)
		}
	}
	for _, f := range s.files {
		if f.config {
			fmt.Fprintln(&configs, f.path)
		}
		if !f.folder && f.link == "" {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.path[1:])
		}
	}

	var out bytes.Buffer
	err := s.writeTarGz(&out, func(t *tar.Writer) error {
		for _, m := range []struct {
			name, text string
			mode       int64
		}{
			{"control", fields.String(), 0o644}, {"md5sums", sums.String(), 0o644},
			{"conffiles", configs.String(), 0o644},
			{"postinst", "#!/bin/sh\nset -e\n" + s.installed, 0o755},
			{"postrm", "#!/bin/sh\nset -e\n" + s.deinstall, 0o755},
		} {
			h := tar.Header{Name: "./" + m.name, Mode: m.mode, Size: int64(len(m.text)), ModTime: time.Unix(at, 0),
				Format: tar.FormatGNU}
			if err := writeMember(t, h, []byte(m.text)); err != nil {
				return err
			}
		}
		return nil
	})
	return out.Bytes(), err
}

// withVersions writes names with versions as Debian does: kubelet (= 1.36.3).
func withVersions(names []string) string {
	var list []string
	for _, n := range names {
		if name, version, given := strings.Cut(n, "="); given {
			n = fmt.Sprintf("%s (= %s)", name, version)
		}
		list = append(list, n)
	}
	return strings.Join(list, ", ")
}

// writeTarGz closes both writers also after an error.
func (s software) writeTarGz(w io.Writer, write func(*tar.Writer) error) error {
	zipped, err := gzip.NewWriterLevel(w, s.level)
	if err != nil {
		return err
	}
	t := tar.NewWriter(zipped)
	return errors.Join(write(t), t.Close(), zipped.Close())
}

// writeMember writes a file of root's.
func writeMember(t *tar.Writer, h tar.Header, data []byte) error {
	h.Uname, h.Gname = "root", "root"
	if err := t.WriteHeader(&h); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}
