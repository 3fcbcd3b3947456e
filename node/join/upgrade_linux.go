package join

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/upgrade"
)

// linuxNode is a Linux node whose programs join installed. The programs that run are in the folder of installation;
// each version has them in a folder of its own below it as well, as second names of the same files.
//
//	/usr/lib/porthole/porthole               what the units start
//	/usr/lib/porthole/versions/ID/porthole   the same file, or that of another version
type linuxNode struct {
	setup   *Setup
	manager install.Manager
	from    string // the version that is installed
	known   bool   // the programs of the other version are on the disk
	self    int    // process of the kubelet in which this runs; 0: none
}

// ports of the parts, by which their processes are found.
var partPorts = map[string]int{"porthole-routes": 10261, "kubelet": 10248}

// newVersion compares the programs beside this one with those that the node runs.
func newVersion(s *Setup) (*version, error) {
	n, err := newLinuxNode(s)
	if err != nil {
		return nil, err
	}
	v := &version{from: n.from, machine: n}
	if v.to, err = versionOf(filepath.Join(s.Bundled, portholeProgram)); err != nil {
		return nil, err
	}
	var names []string
	if s.Network == "host-gateway" {
		names = append(names, "porthole-routes")
	}
	for _, name := range append(names, "kubelet") {
		v.parts = append(v.parts,
			upgrade.Part{Name: name, Old: json.RawMessage(strconv.Quote(v.from)),
				// The state of a part is its version, as a JSON text.
				New: json.RawMessage(strconv.Quote(v.to))})
	}
	return v, nil
}

// knownVersion is the node for going to a version whose programs are on the disk.
func knownVersion(s *Setup, id string, self int) (upgrade.Machine, error) {
	n, err := newLinuxNode(s)
	if err != nil {
		return nil, err
	}
	n.known, n.self = true, self
	if _, err := os.Stat(n.program(id, portholeProgram)); err != nil {
		return nil, fmt.Errorf("version %s is not complete: %w", id, err)
	}
	return n, nil
}

// newLinuxNode refuses a node whose programs a package brought: the package manager exchanges
// those.
func newLinuxNode(s *Setup) (*linuxNode, error) {
	if packaged() {
		return nil,
			fmt.Errorf(
				"a package brought the programs of this node: install its new version, then systemctl restart porthole-routes kubelet: %w", upgrade.ErrRefused)
	}
	n := &linuxNode{setup: s, manager: manager()}
	var err error
	n.from, err = versionOf(filepath.Join(s.InstallDir, portholeProgram))
	return n, err
}

// portholeProgram is the program that every version has.
const portholeProgram = "porthole"

// programNames are those that join installs on Linux; the second need not be there.
var programNames = []string{portholeProgram, "porthole-routes"}

// sourceFiles are the programs of an archive.
func sourceFiles() []string { return programNames }

// versionOf names the version of a program, with those beside it, by their contents.
// The name has a fixed number of digits of a SHA-256 sum over names and contents.
func versionOf(program string) (string, error) {
	sum := sha256.New()
	for _, name := range programNames {
		f, err := os.Open(filepath.Join(filepath.Dir(program), name))
		if errors.Is(err, fs.ErrNotExist) && name != portholeProgram {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("reading the programs: %w", err)
		}
		fmt.Fprintln(sum, name)
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("reading %s: %w", f.Name(), err)
		}
	}
	return "devel-" + hex.EncodeToString(sum.Sum(nil))[:install.VersionDigits], nil
}

// versionsFolder has a folder for each version that is kept.
func versionsFolder(s *Setup) string { return filepath.Join(s.InstallDir, "versions") }

// program is the path of a program of a version, which need not exist.
func (n *linuxNode) program(id, name string) string {
	return filepath.Join(versionsFolder(n.setup), id, name)
}

// Stage keeps the programs that run under their version, and copies the new ones.
func (n *linuxNode) Stage(ctx context.Context) error {
	if n.known {
		return nil
	}
	to, err := versionOf(filepath.Join(n.setup.Bundled, portholeProgram))
	if err != nil {
		return err
	}

	// Programs that run get a second name, so that they are kept without a copy.
	for _, name := range programNames {
		if err := link(filepath.Join(n.setup.InstallDir, name), n.program(n.from, name)); err != nil {
			return err
		}
		p := install.Program{Name: name, From: filepath.Join(n.setup.Bundled, name), To: n.program(to, name)}
		if _, err := os.Stat(p.From); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := p.Apply(ctx); err != nil {
			return err
		}
	}
	// A disk that is full, or a file that changes while it is copied, shows here.
	if got, err := versionOf(n.program(to, portholeProgram)); err != nil || got != to {
		return errors.Join(fmt.Errorf("%s is %q after it was copied", to, got), err)
	}
	return nil
}

// link makes path another name of a file, in one step. A file that does not exist has none.
func link(file, path string) error {
	from, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if to, err := os.Stat(path); err == nil && os.SameFile(from, to) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	// The name is taken over in one step: units never find the path empty.
	temp := path + ".new"
	if err := install.DropState(temp); err != nil {
		return err
	}
	if err := os.Link(file, temp); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Switch puts the programs of a version where the units start them, and restarts one of these if it is of another
// version.
func (n *linuxNode) Switch(ctx context.Context, part string, state json.RawMessage) error {
	id, err := n.version(state)
	if err != nil {
		return err
	}
	// All programs of a version are put in place for each part, since they are files of one folder.
	for _, name := range programNames {
		if err := n.place(id, name); err != nil {
			return err
		}
	}

	if n.self != 0 && part == "kubelet" && !n.is(n.self, id) {
		return ErrRestart
	}
	// With a service manager a program of the right version goes on.
	if n.manager.Name() != "none" {
		if _, same := n.process(part, id); same {
			return nil
		}
		return n.manager.Start(ctx, part)
	}
	for _, pid := range n.others(part, id) { // whoever supervises this machine starts the program again
		if err := end(ctx, pid); err != nil {
			return err
		}
	}
	return nil
}

// others returns the processes of a part that are not of a version, also those that do not listen yet.
// A process is found by its program and its command: `porthole kubelet` is the part kubelet.
func (n *linuxNode) others(part, id string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // of processes that end meanwhile: skipped below
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(exe, n.setup.InstallDir+"/") {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline")) // of one that ends: not ours
		args := strings.Split(string(text), "\x00")
		command := strings.TrimPrefix(part, "porthole-")
		if !strings.HasPrefix(filepath.Base(exe), part) && (len(args) < 2 || args[1] != command) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && !n.is(pid, id) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// place puts a program of a version where the units start it. One that the version does not have goes: it would be of
// another version.
func (n *linuxNode) place(id, name string) error {
	to := filepath.Join(n.setup.InstallDir, name)
	if _, err := os.Stat(n.program(id, name)); errors.Is(err, fs.ErrNotExist) {
		return install.DropState(to)
	}
	return link(n.program(id, name), to)
}

// version reads the state of a part. A name with a path in it is refused, as it becomes a folder's
// name.
func (n *linuxNode) version(state json.RawMessage) (id string, err error) {
	if err := json.Unmarshal(state, &id); err != nil || id == "" || id != filepath.Base(id) {
		return "", errors.Join(fmt.Errorf("%s is no version", state), err)
	}
	return id, nil
}

// process returns the process of a part, 0 if there is none, and whether its program is that of a version.
func (n *linuxNode) process(part, id string) (pid int, same bool) {
	for _, p := range usedPorts() {
		if p.Number == partPorts[part] && p.PID > 0 {
			pid = p.PID
		}
	}
	return pid, n.is(pid, id)
}

// is reports whether a process runs a program of a version.
func (n *linuxNode) is(pid int, id string) bool {
	runs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)) // also of a program whose file has been replaced
	if err != nil {
		return false
	}
	dir := filepath.Dir(n.program(id, portholeProgram))
	if _, err := os.Stat(dir); err != nil && id == n.from { // before the first exchange no folder has this version
		dir = n.setup.InstallDir
	}
	for _, name := range programNames { // `porthole routes` becomes porthole-routes where that is beside it
		if file, err := os.Stat(filepath.Join(dir, name)); err == nil && os.SameFile(runs, file) {
			return true
		}
	}
	return false
}

// stopTime is how long a program may take to end before it is killed.
const stopTime = 20 * time.Second

// end ends a process that somebody supervises, and returns when it is gone.
func end(ctx context.Context, pid int) error {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("ending process %d: %w", pid, err)
		}
		if gone(ctx, pid) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}

// gone waits until a process has ended, and reports whether it has.
// Whether a process is there is asked with signal 0, which is not sent.
func gone(ctx context.Context, pid int) bool {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for unix.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookPeriod / 4):
		}
	}
	return true
}

// Healthy looks whose program listens on the part's port, and asks it.
func (n *linuxNode) Healthy(ctx context.Context, part string, state json.RawMessage) (instance string, err error) {
	id, err := n.version(state)
	if err != nil {
		return "", err
	}
	pid, same := n.process(part, id)
	switch {
	case pid == 0:
		return "", errors.New("it does not run")
	case !same:
		return "", fmt.Errorf("process %d is not of %s", pid, id)
	}
	return strconv.Itoa(pid), install.Healthy(ctx, healthURLs[part])
}

// Ready asks the API server.
func (n *linuxNode) Ready(ctx context.Context) (string, error) { return nodeReady(ctx, n.setup) }

// Forget removes the folder of a version.
// An empty id would remove all versions.
func (n *linuxNode) Forget(_ context.Context, id string) error {
	if id == "" || id != filepath.Base(id) {
		return fmt.Errorf("%q is no version", id)
	}
	return os.RemoveAll(filepath.Join(versionsFolder(n.setup), id))
}
