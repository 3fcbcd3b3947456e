package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/packaging/systemd"
	"porthole.dev/porthole/routes/podnet"
)

// undoSteps returns the steps of a Linux node that the journal can name, with what they need to be undone: paths, no
// content.
func undoSteps(s *Setup) ([]step.Step, error) {
	var list []step.Step
	// A step that is undone needs no content.
	none := func() []byte { return nil }
	file := func(name, path string) { list = append(list, install.File{Name: name, Path: path, Content: none}) }

	for _, name := range []string{"porthole", "porthole-routes"} {
		list = append(list, install.Program{Name: "program/" + name, To: filepath.Join(s.InstallDir, name)})
	}
	for _, f := range install.KubeconfigSteps(&s.Node) {
		file(f.Name, f.Path)
	}
	for _, f := range install.KubeletSteps(&s.Node, nil, install.KubeletOptions{}) {
		file(f.Name, f.Path)
	}
	for _, f := range unitSteps("") {
		file(f.Name, f.Path)
	}
	for _, name := range cniPlugins {
		list = append(list, install.Program{Name: "cni/" + name, To: filepath.Join(cniBin, name), ForPods: true})
	}
	file("routes-config", routesEnv)
	file("routes-bgp", routesBGP)
	file("environment", systemd.Environment)
	// Undoing goes from the end: the programs stop before their files go.
	m := manager()
	for _, unit := range []string{"porthole-routes", "kubelet"} {
		list = append(list, install.Start{Unit: unit, Manager: m, Facts: s.Journal.Facts})
	}
	return append(list, install.Registered{Node: &s.Node}, install.Ready{Node: &s.Node},
		install.Record{Journal: s.Journal}), nil
}

// beforeUndo does nothing: the programs are stopped by their steps.
func beforeUndo(context.Context, *Setup) error { return nil }

// afterPods reports whether a step is undone when no pod is left: the runtime calls the CNI plugins when a pod ends.
func afterPods(s step.Step) bool {
	p, ok := s.(install.Program)
	return ok && p.ForPods
}

// endPods removes the pods. The programs have no files any more, and must have ended.
func endPods(ctx context.Context, s *Setup) error {
	if err := ended(ctx, s.InstallDir); err != nil {
		return err
	}
	return removeSandboxes(ctx, runtimeEndpoint(s.CRISocket))
}

// afterUndo removes what else the node's programs made: the network of the pods, volumes and logs. No pod may be left.
func afterUndo(ctx context.Context, s *Setup, keepLogs bool) error {
	// Each of these is tried, whatever became of the others.
	err := errors.Join(podnet.Remove(cniConf), removeTunnelDevice(s.Choices), leaveSwitch(ctx, s),
		unmountBelow(s.Kubelet),
		platform.UnshareMounts(s.Kubelet))
	if err != nil { // what is mounted is not deleted
		return err
	}
	dirs := []string{s.Kubelet, filepath.Join(s.State, "routes"), "/var/lib/cni/networks/porthole", versionsFolder(s)}
	if !keepLogs {
		dirs = append(dirs, "/var/log/pods", "/var/log/containers")
	}
	for _, dir := range dirs {
		err = errors.Join(err, emptyFolder(dir))
	}
	for _, dir := range []string{"/var/lib/cni/results", "/var/lib/cni/networks"} {
		_ = os.Remove(dir) // it stays if something else is in it
	}
	_ = os.Remove(s.InstallDir) // which an upgrade's versions kept; one that is not empty is another's
	return err
}

// ended waits until none of our programs runs, and nobody listens on their ports. Where no service manager ended them,
// they end because their files are gone; one that has just been started listens on no port yet.
func ended(ctx context.Context, installDir string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		busy := nodeProgram(installDir)
		// The ports are those at which the two programs answer for their health.
		for _, port := range []int{10248, 10261} {
			if c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second); err == nil {
				c.Close()
				busy = fmt.Sprintf("the program on port %d", port)
			}
		}
		if busy == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s still runs: end it, then leave again", busy)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// nodeProgram names a process that runs a kubelet or the agent of the pod network from a folder or its versions, also
// when the file has been deleted. Other commands of porthole, such as this one, do not count.
func nodeProgram(installDir string) string {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // of processes that end meanwhile: passed over
	for _, link := range links {
		exe, err := os.Readlink(link)
		exe = strings.TrimSuffix(exe, " (deleted)")
		if err != nil || !strings.HasPrefix(exe, installDir+"/") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		words := strings.Split(string(line), "\x00")
		if name := filepath.Base(exe); name == "porthole-routes" ||
			name == portholeProgram && len(words) > 1 && words[1] == "kubelet" {
			return fmt.Sprintf("process %s of %s", strings.Split(link, "/")[2], exe)
		}
	}
	return ""
}

// mountsBelow returns the mount points below a folder, the deepest first.
func mountsBelow(dir string) (list []string, err error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		// Mount points are written with octal escapes; \040 is a blank (proc(5)).
		if w := strings.Fields(line); len(w) > 1 && strings.HasPrefix(w[1], dir+"/") {
			list = append(list, strings.ReplaceAll(w[1], `\040`, " "))
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list, nil
}

// A mount point that is gone meanwhile (EINVAL) is no error.
func unmountBelow(dir string) error {
	list, err := mountsBelow(dir)
	for _, m := range list {
		if e := unix.Unmount(m, unix.MNT_DETACH); e != nil && !errors.Is(e, unix.EINVAL) {
			err = errors.Join(err, fmt.Errorf("unmounting %s: %w", m, e))
		}
	}
	return err
}

// emptyFolder removes what is in a folder, and the folder if it is no mount.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, beneath.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("emptying %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("removing a folder: %w", err)
	}
	return nil
}

// leftovers looks for everything that join, and the programs of a node, make.
func leftovers(ctx context.Context, s *Setup) (list []string, err error) {
	steps, err := undoSteps(s)
	if err != nil {
		return nil, err
	}
	for _, e := range s.Journal.Steps {
		list = append(list, "step "+e.ID)
	}
	for _, st := range steps {
		// Only files are looked for; what other steps made is found by what it does.
		f, ok := st.(install.File)
		if !ok {
			continue
		}
		if _, err := os.Stat(f.Path); err == nil {
			list = append(list, "file "+f.Path)
		}
	}
	for _, path := range []string{s.Pair(), s.PendingKey()} {
		if _, err := os.Lstat(path); err == nil {
			list = append(list, "file "+path)
		}
	}

	network, err := podnet.Leftovers(cniConf)
	if err != nil {
		return nil, err
	}
	list = append(list, network...)
	if device := tunnelDevice(s.Choices); device != "" {
		if there, err := platform.LinkExists(device); err != nil || there {
			list = append(list, "interface "+device)
		}
	}
	found, err := leftInSwitch(ctx, s)
	if err != nil {
		return nil, err
	}
	list = append(list, found...)
	// Port 10250 is the kubelet's, 10261 that of porthole-routes.
	for _, p := range usedPorts() {
		if p.Ours && (p.Number == 10250 || p.Number == 10261) {
			list = append(list, fmt.Sprintf("process %s (pid %d)", p.Program, p.PID))
		}
	}
	ids, err := runtime.SandboxIDs(ctx, runtimeEndpoint(s.CRISocket))
	for _, id := range ids {
		list = append(list, "sandbox "+id)
	}
	return list, err
}
