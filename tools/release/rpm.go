package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Types of values in a header of RPM (https://rpm-software-management.github.io/rpm/manual/format_header.html).
const (
	rpmInt16       = 3
	rpmInt32       = 4
	rpmString      = 6
	rpmBinary      = 7
	rpmStringArray = 8
	rpmI18N        = 9
)

// Tags of headers (https://rpm-software-management.github.io/rpm/manual/tags.html).
const (
	rpmSignatures = 62 // region of the signature's header
	rpmImmutable  = 63 // region of the main header

	// Of the signature's header.
	sigSHA1, sigSHA256, sigSize, sigMD5, sigPayloadSize = 269, 273, 1000, 1004, 1007

	// The package.
	rpmI18NTable, rpmName, rpmVersion, rpmRelease            = 100, 1000, 1001, 1002
	rpmSummary, rpmDescription, rpmBuildTime, rpmBuildHost   = 1004, 1005, 1006, 1007
	rpmSize, rpmLicense, rpmPackager, rpmGroup, rpmURL       = 1009, 1014, 1015, 1016, 1020
	rpmOS, rpmArch, rpmSource, rpmEncoding                   = 1021, 1022, 1044, 5062
	rpmPostIn, rpmPostUn, rpmPostInProgram, rpmPostUnProgram = 1024, 1026, 1086, 1088
	rpmProvides, rpmProvideFlags, rpmProvideVersions         = 1047, 1112, 1113
	rpmRequires, rpmRequireFlags, rpmRequireVersions         = 1049, 1048, 1050
	rpmConflicts, rpmConflictFlags, rpmConflictVersions      = 1054, 1053, 1055
	rpmPayload, rpmCompressor, rpmPayloadFlags               = 1124, 1125, 1126
	rpmPayloadDigest, rpmPayloadAlgorithm                    = 5092, 5093

	// Its files.
	rpmFileSizes, rpmFileModes, rpmFileRDevs, rpmFileMTimes     = 1028, 1030, 1033, 1034
	rpmFileDigests, rpmFileLinkTos, rpmFileFlags, rpmFileVerify = 1035, 1036, 1037, 1045
	rpmFileUsers, rpmFileGroups, rpmFileDevices                 = 1039, 1040, 1095
	rpmFileInodes, rpmFileLangs, rpmDigestAlgorithm             = 1096, 1097, 5011
	rpmDirIndexes, rpmBaseNames, rpmDirNames                    = 1116, 1117, 1118
)

// Values of flags.
const (
	rpmEqual  = 8             // the version is this one
	rpmOfRPM  = 1<<24 | 8 | 2 // a feature of rpm itself, of this version or an older one
	rpmConfig = 1 | 1<<4      // users change the file, and an upgrade does not replace it
	rpmSHA256 = 8             // of OpenPGP's algorithms
)

// rpmEntry is one tag of a header.
type rpmEntry struct {
	tag, kind, count int32
	data             []byte
}

// rpmHeader collects the tags of a header.
type rpmHeader struct{ entries []rpmEntry }

// text, texts, numbers and bytes add an entry; lists that are empty have none.
func (h *rpmHeader) text(tag int32, s string) { h.texts(tag, rpmString, s) }

func (h *rpmHeader) texts(tag, kind int32, list ...string) {
	if len(list) > 0 {
		h.entries = append(h.entries,
			rpmEntry{tag, kind, int32(len(list)), []byte(strings.Join(list, "\x00") + "\x00")})
	}
}

func (h *rpmHeader) numbers(tag int32, list ...int32) {
	if len(list) > 0 {
		h.entries = append(h.entries, rpmEntry{tag, rpmInt32, int32(len(list)), bigEndian(list)})
	}
}

func (h *rpmHeader) bytes(tag int32, data []byte) {
	h.entries = append(h.entries, rpmEntry{tag, rpmBinary, int32(len(data)), data})
}

// bigEndian is for numbers and lists of them.
func bigEndian(values any) []byte {
	data, err := binary.Append(nil, binary.BigEndian, values)
	if err != nil {
		panic(err) // numbers of fixed size only
	}
	return data
}

// encode returns the header with its region, which says that all of it belongs together. The region's entry comes
// first; what it points to stands behind all other values and points back to the beginning.
func (h *rpmHeader) encode(region int32) []byte {
	slices.SortStableFunc(h.entries, func(a, b rpmEntry) int { return int(a.tag - b.tag) })
	var index, store bytes.Buffer
	for _, e := range h.entries {
		align := map[int32]int{rpmInt16: 2, rpmInt32: 4}[e.kind]
		for align > 0 && store.Len()%align > 0 {
			store.WriteByte(0)
		}
		index.Write(bigEndian([]int32{e.tag, e.kind, int32(store.Len()), e.count}))
		store.Write(e.data)
	}

	n := int32(len(h.entries)) + 1
	first := bigEndian([]int32{region, rpmBinary, int32(store.Len()), 16})
	store.Write(bigEndian([]int32{region, rpmBinary, -16 * n, 16}))
	return slices.Concat([]byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0}, bigEndian([]int32{n, int32(store.Len())}), first,
		index.Bytes(), store.Bytes())
}

// writeRPM writes a package in the format of RPM 4: a lead, the signature's header with sums, the main header, and the
// files as cpio.
func writeRPM(out *bytes.Buffer, s software, at int64) error {
	var cpio, payload bytes.Buffer
	writeCPIO(&cpio, s.files, at)
	zipped, err := gzip.NewWriterLevel(&payload, s.level)
	if err != nil {
		return err
	}
	_, err = zipped.Write(cpio.Bytes())
	if err := errors.Join(err, zipped.Close()); err != nil {
		return err
	}

	h := s.rpmDescription(at)
	h.addFiles(s.files, at)
	h.texts(rpmPayloadDigest, rpmStringArray, fmt.Sprintf("%x", sha256.Sum256(payload.Bytes())))
	main := h.encode(rpmImmutable)

	var sig rpmHeader
	sig.text(sigSHA1, fmt.Sprintf("%x", sha1.Sum(main)))
	sig.text(sigSHA256, fmt.Sprintf("%x", sha256.Sum256(main)))
	sig.numbers(sigSize, int32(len(main)+payload.Len()))
	sum := md5.New()
	sum.Write(main)
	sum.Write(payload.Bytes())
	sig.bytes(sigMD5, sum.Sum(nil))
	sig.numbers(sigPayloadSize, int32(cpio.Len()))
	signature := sig.encode(rpmSignatures)

	lead := make([]byte, 96)
	copy(lead, []byte{0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1})
	copy(lead[10:75], s.name+"-"+s.version+"-1")
	copy(lead[76:], []byte{0, 1, 0, 5}) // Linux; signature as a header
	out.Write(lead)
	out.Write(signature)
	out.Write(make([]byte, -len(signature)&7))
	out.Write(main)
	out.Write(payload.Bytes())
	return nil
}

// rpmDescription returns the header without its files.
func (s software) rpmDescription(at int64) *rpmHeader {
	h := &rpmHeader{}
	h.texts(rpmI18NTable, rpmStringArray, "C")
	for tag, text := range map[int32]string{
		rpmName: s.name, rpmVersion: s.version, rpmRelease: "1", rpmBuildHost: "localhost", rpmLicense: s.licenseName,
		rpmPackager: s.maintainer,
		rpmURL:      s.home, rpmOS: "linux", rpmArch: "x86_64", rpmSource: s.name + "-" + s.version + "-1.src.rpm",
		rpmPostIn: s.installed, rpmPostInProgram: "/bin/sh", rpmPostUn: s.deinstall, rpmPostUnProgram: "/bin/sh",
		rpmPayload: "cpio", rpmCompressor: "gzip", rpmPayloadFlags: "9", rpmEncoding: "utf-8",
	} {
		h.text(tag, text)
	}
	for tag, text := range map[int32]string{rpmSummary: s.summary, rpmDescription: s.description,
		rpmGroup: "System Environment/Daemons"} {
		h.texts(tag, rpmI18N, text)
	}
	h.numbers(rpmBuildTime, int32(at))
	h.numbers(rpmSize, int32(s.size()))
	h.numbers(rpmPayloadAlgorithm, rpmSHA256)
	// Digests of files are SHA-256 too.
	h.numbers(rpmDigestAlgorithm, rpmSHA256)

	h.relations(rpmProvides, rpmProvideFlags, rpmProvideVersions,
		append([]string{s.name + "=" + s.version + "-1"}, s.provides...), rpmEqual)
	h.relations(rpmConflicts, rpmConflictFlags, rpmConflictVersions, s.conflicts, rpmEqual)
	h.relations(rpmRequires, rpmRequireFlags, rpmRequireVersions,
		[]string{"/bin/sh", "rpmlib(CompressedFileNames)=3.0.4-1",
			"rpmlib(FileDigests)=4.6.0-1", "rpmlib(PayloadFilesHavePrefix)=4.0-1"}, rpmOfRPM)
	return h
}

// relations adds names with versions. sense holds for names that have a version.
func (h *rpmHeader) relations(names, flags, versions int32, list []string, sense int32) {
	var n, v []string
	var f []int32
	for _, each := range list {
		name, version, given := strings.Cut(each, "=")
		n, v = append(n, name), append(v, version)
		if given {
			f = append(f, sense)
		} else {
			f = append(f, 0)
		}
	}
	h.texts(names, rpmStringArray, n...)
	h.texts(versions, rpmStringArray, v...)
	h.numbers(flags, f...)
}

// addFiles adds what the header says of each file.
// Each attribute of files is a list of its own, in the order of the files; folders are kept once
// and referred to by their index.
func (h *rpmHeader) addFiles(files []installed, at int64) {
	var sizes, times, flags, verify, devices, inodes, dirIndexes []int32
	var modes, rdevs []uint16
	var digests, links, owners, langs, names, dirs []string
	for i, f := range files {
		size := len(f.data)
		digest := fmt.Sprintf("%x", sha256.Sum256(f.data))
		flag := int32(0)
		switch {
		case f.folder:
			size, digest = 4096, ""
		case f.link != "":
			size, digest = len(f.link), ""
		case f.config:
			flag = rpmConfig
		}
		sizes = append(sizes, int32(size))
		digests = append(digests, digest)
		flags = append(flags, flag)
		times = append(times, int32(at))
		verify = append(verify, -1)
		devices = append(devices, 1)
		inodes = append(inodes, int32(i+1))
		modes = append(modes, uint16(f.unixMode()))
		rdevs = append(rdevs, 0)
		links = append(links, f.link)
		owners = append(owners, "root")
		langs = append(langs, "")

		dir := strings.TrimSuffix(path.Dir(f.path), "/") + "/"
		at := slices.Index(dirs, dir)
		if at < 0 {
			at, dirs = len(dirs), append(dirs, dir)
		}
		names = append(names, path.Base(f.path))
		dirIndexes = append(dirIndexes, int32(at))
	}

	for tag, list := range map[int32][]int32{rpmFileSizes: sizes, rpmFileMTimes: times, rpmFileFlags: flags,
		rpmFileVerify:  verify,
		rpmFileDevices: devices, rpmFileInodes: inodes, rpmDirIndexes: dirIndexes} {
		h.numbers(tag, list...)
	}
	for tag, list := range map[int32][]string{rpmFileDigests: digests, rpmFileLinkTos: links, rpmFileUsers: owners,
		rpmFileGroups: owners,
		rpmFileLangs:  langs, rpmBaseNames: names, rpmDirNames: dirs} {
		h.texts(tag, rpmStringArray, list...)
	}
	for tag, list := range map[int32][]uint16{rpmFileModes: modes, rpmFileRDevs: rdevs} {
		h.entries = append(h.entries, rpmEntry{tag, rpmInt16, int32(len(list)), bigEndian(list)})
	}
}

// unixMode returns the mode with the type of the file (inode(7)).
func (i installed) unixMode() int64 {
	switch {
	case i.folder:
		return 0o040000 | i.mode()
	case i.link != "":
		return 0o120000 | i.mode()
	}
	return 0o100000 | i.mode()
}

// writeCPIO writes the files in the format newc (cpio(5)), with the inodes that the header of the package has.
func writeCPIO(w *bytes.Buffer, files []installed, at int64) {
	write := func(inode int, name string, mode, links, mtime int64, data []byte) {
		fmt.Fprintf(w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", inode, mode, 0, 0, links, mtime,
			len(data), 0, 0, 0, 0, len(name)+1, 0)
		w.WriteString(name + "\x00")
		w.Write(make([]byte, -w.Len()&3))
		w.Write(data)
		w.Write(make([]byte, -w.Len()&3))
	}
	for i, f := range files {
		data := f.data
		if f.link != "" {
			data = []byte(f.link)
		}
		write(i+1, "."+f.path, f.unixMode(), 1, at, data)
	}
	write(0, "TRAILER!!!", 0, 1, 0, nil)
}
