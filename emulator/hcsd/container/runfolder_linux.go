package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
)

// bundle is the folder of a container, a bundle of runc (opencontainers/runtime-spec, bundle.md). Of its folders all
// but the second are root's.
//
//	run/      streams of its programs, which they have as open files only, and which programs were begun
//	guest/    what hcsd and the launchers tell each other: /prefix/run of the container, which its programs can change as they like
//	pipes/    sockets of mapped pipes: /prefix/pipes of the container, read-only there
type bundle struct{ dir string }

func (b bundle) run() string   { return filepath.Join(b.dir, "run") }
func (b bundle) guest() string { return filepath.Join(b.dir, "guest") }
func (b bundle) pipes() string { return filepath.Join(b.dir, "pipes") }

// told is what can be in the folder guest of one program, behind its number and a dot: emulator/dll/launch.c.
var told = []string{"line", "env", "console", "size", "event", "typed", "started", "exit", "taken"}

// maxAnswer is the most that is read of a file that a launcher writes: a number and the end of a line.
const maxAnswer = 32

// runFolder is the folder guest of a container. Its programs can make links, pipes and devices of any name there, and
// change it while it is read. So nothing is opened outside of it, no link is followed, and only regular files are
// read, as much of them as a launcher writes.
type runFolder struct{ root *os.Root }

// openRun opens the folder guest of a container. The caller closes it.
func (b bundle) openRun() (runFolder, error) {
	root, err := os.OpenRoot(b.guest()) // a mount in the container, which cannot rename it
	if err != nil {
		return runFolder{}, fmt.Errorf("opening the folder that the programs of container %s write: %w",
			filepath.Base(b.dir), err)
	}
	return runFolder{root}, nil
}

func (f runFolder) close() { f.root.Close() }

func fileOf(n int, what string) string { return fmt.Sprintf("%d.%s", n, what) }

// read returns what the launcher of program n has written; "" if there is nothing that a launcher writes.
func (f runFolder) read(n int, what string) string {
	file, err := hostfs.OpenRegular(f.root, fileOf(n, what))
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxAnswer))
	if err != nil {
		return ""
	}
	return string(data)
}

// write writes a file for the launcher of program n, which finds it whole or not at all. What the container has put
// there is replaced.
func (f runFolder) write(n int, what string, data []byte) error {
	name := fileOf(n, what)
	temp := fileOf(n, what+".new")
	if err := f.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Chown(wine.Owner, wine.Owner), file.Close())
	if err == nil {
		err = f.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("telling the launcher of program %d: %w", n, err), f.root.Remove(temp))
	}
	return nil
}

// exitCode reads the exit code that the launcher of program n wrote. ok is false if it ended before it could write the
// code.
func (f runFolder) exitCode(n int) (code uint32, ok bool) {
	value, err := strconv.ParseUint(strings.TrimSpace(f.read(n, "exit")), 10, 32)
	return uint32(value), err == nil
}

// begin notes that program n is begun, for the next hcsd: see lastProgram.
func (b bundle) begin(n int) error {
	return os.WriteFile(filepath.Join(b.run(), fileOf(n, "begun")), nil, 0o600)
}

// programFiles lists files of programs in the folder that is root's. Each name begins with the number of the program;
// the pattern is what follows.
func (b bundle) programFiles(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(b.run(), pattern))
	if err != nil {
		return nil // patterns of ours are none that Glob refuses
	}
	return found
}

// removeProgram removes the files of a program that has ended.
func (b bundle) removeProgram(n int) {
	for _, f := range b.programFiles(fmt.Sprintf("%d.*", n)) {
		os.Remove(f)
	}
	folder, err := b.openRun()
	if err != nil {
		return // with its system
	}
	defer folder.close()
	for _, what := range told {
		_ = folder.root.Remove(fileOf(n, what)) // most are not there
	}
}

// lastProgram is the highest number of a program that was begun; 0: there is none. What one left that an hcsd was
// starting when it was killed would be taken for the next program's.
func (b bundle) lastProgram() (last int) {
	for _, f := range b.programFiles("*.*") {
		number, _, _ := strings.Cut(filepath.Base(f), ".")
		if n, err := strconv.Atoi(number); err == nil {
			last = max(last, n)
		}
	}
	return last
}
