package usage

import (
	"path/filepath"
	"strconv"
	"strings"
)

// readFilesystems reads the file systems that are on disks, each once, in the order in which they were mounted.
func (r *Reader) readFilesystems(g *Group) {
	mounts, err := readFile(filepath.Join(r.proc, "self", "mountinfo"))
	if err != nil {
		return
	}
	stats, _ := readFile(filepath.Join(r.proc, "diskstats")) // without it there are sizes only
	seen := map[string]bool{}
	for line := range strings.Lines(string(mounts)) {
		// id parent major:minor root mountpoint options … - type source options
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		f := strings.Fields(before)
		source := strings.Fields(after)
		if len(f) < 5 || len(source) < 2 || !strings.HasPrefix(source[1], "/dev/") || seen[f[2]] {
			continue
		}
		seen[f[2]] = true
		fs := Filesystem{Device: source[1]}
		if !r.size(f[4], &fs) {
			continue
		}
		fs.add(string(stats), f[2])
		g.Filesystems = append(g.Filesystems, fs)
	}
}

// add adds the figures of a disk, which is major:minor.
func (fs *Filesystem) add(stats, id string) {
	major, minor, _ := strings.Cut(id, ":")
	// major minor name reads merged sectors ms writes merged sectors ms current ms weighted
	for line := range strings.Lines(stats) {
		f := strings.Fields(line)
		if len(f) < 14 || f[0] != major || f[1] != minor {
			continue
		}
		n := func(i int) uint64 { v, _ := strconv.ParseUint(f[i], 10, 64); return v }
		fs.ReadsMerged = n(4)
		fs.SectorsRead = n(5)
		fs.ReadTime = n(6)
		fs.WritesMerged = n(8)
		fs.SectorsWritten = n(9)
		fs.WriteTime = n(10)
		fs.Current = n(11)
		fs.BusyTime = n(12)
		fs.WeightedTime = n(13)
		return
	}
}
