package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// programFiles lists files of programs of a system: their pipes, and what their launchers read and write. Each name begins with the number of
// the program; the pattern is what follows.
func (o Options) programFiles(key, pattern string) (files []string) {
	for _, dir := range []string{"run", filepath.Join("prefix", "run")} {
		found, err := filepath.Glob(filepath.Join(o.systemDir(key), dir, pattern))
		if err == nil { // patterns of ours are none that Glob refuses
			files = append(files, found...)
		}
	}
	return files
}

// removeProgramFiles removes the files of a program that has ended.
func (o Options) removeProgramFiles(key string, n int) {
	for _, f := range o.programFiles(key, fmt.Sprintf("%d.*", n)) {
		os.Remove(f)
	}
}

// lastProgram is the highest number of a program that has files; 0: there is none. One that an hcsd was starting when it was killed is written
// down nowhere else, and what it left would be taken for the next program's.
func (o Options) lastProgram(key string) (last int) {
	for _, f := range o.programFiles(key, "*.*") {
		number, _, _ := strings.Cut(filepath.Base(f), ".")
		if n, err := strconv.Atoi(number); err == nil {
			last = max(last, n)
		}
	}
	return last
}
