package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	kubeproxyconfig "k8s.io/kube-proxy/config/v1alpha1"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/step"
	steps "porthole.dev/porthole/join/windows"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/node/kubeproxy"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/podnet"
)

// undoSteps returns the steps of a Windows node that the journal can name, with what they need to be undone: paths, no
// content.
func undoSteps(s *Setup) ([]step.Step, error) {
	m, err := services.Connect()
	if err != nil {
		return nil, err
	}
	more, err := steps.UndoSteps(steps.Options{Install: s.InstallDir, Data: s.State, Root: rootFolder(s.Root),
		FirewallPorts: s.FirewallPorts, Mode: s.Network}, m)
	if err != nil {
		return nil, err
	}
	var list []step.Step
	for _, f := range install.KubeconfigSteps(&s.Node) {
		list = append(list, install.File{Name: f.Name, Path: f.Path, Content: func() []byte { return nil }})
	}
	list = append(list, more...)
	return append(list, install.Registered{Node: &s.Node}, install.Ready{Node: &s.Node},
		install.Record{Journal: s.Journal}), nil
}

// stopTime is how long each service may take to stop.
const stopTime = time.Minute

// beforeUndo stops the services and removes what they made, as long as the CNI plugins are there: pods, load
// balancers, the pod network. The host's own routes are put back. It goes on after what fails.
func beforeUndo(ctx context.Context, s *Setup) error {
	m, err := services.Connect()
	if err != nil {
		return err
	}
	defer m.Close()
	for _, name := range []string{"kubelet", "kube-proxy", "porthole-routes"} {
		if err := stopService(ctx, m, name); err != nil { // what runs would make again what is removed
			return err
		}
	}

	errs := []error{bootrecord.Remove(filepath.Join(s.State, bootrecord.Pods)),
		removeSandboxes(ctx, runtimeEndpoint(s.CRISocket))}
	proxy := kubeproxy.Options{Mode: kubeproxy.Kernelspace, StateFile: filepath.Join(s.State, bootrecord.Services)}
	proxy.Config.Winkernel = kubeproxyconfig.KubeProxyWinkernelConfiguration{NetworkName: podnet.NetworkName,
		EnableDSR: true}
	errs = append(errs, kubeproxy.Cleanup(ctx, proxy))
	// The routes of pods are told from the host's own by the range of pods.
	pods, _ := netip.ParsePrefix(s.Pods) // not valid: no route counts as one of pods
	errs = append(errs, leaveSwitch(ctx, s))
	return errors.Join(append(errs,
		routes.Cleanup(ctx, routes.Options{ConfDir: cniConf(s), StateDir: s.State, Cluster: pods}))...)
}

// cniConf is the folder of CNI configurations, kubeadm's on C:.
func cniConf(s *Setup) string { return filepath.Join(rootFolder(s.Root), "etc", "cni", "net.d") }

// A service that is not there, or not ours, is left alone without an error.
func stopService(ctx context.Context, m *services.Manager, name string) error {
	st, err := m.Get(name)
	if err != nil || st == nil || services.CheckOwner(st.Spec) != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return m.Stop(ctx, name)
}

// afterPods reports whether a step is undone when no pod is left: none here, beforeUndo has removed them.
func afterPods(step.Step) bool { return false }

// endPods does nothing: beforeUndo has done it.
func endPods(context.Context, *Setup) error { return nil }

// made are the folders that the node's programs made and filled. keepLogs leaves those of logs out.
func made(s *Setup, keepLogs bool) []string {
	varLib := filepath.Join(rootFolder(s.Root), "var", "lib")
	dirs := []string{s.Kubelet, filepath.Join(varLib, "kube-proxy"), filepath.Join(varLib, "cni", "networks"),
		filepath.Join(varLib, "cni", "results")}
	if !keepLogs {
		logs := filepath.Join(rootFolder(s.Root), "var", "log")
		dirs = append(dirs, filepath.Join(logs, "pods"), filepath.Join(logs, "containers"),
			filepath.Join(s.State, "logs"))
	}
	return dirs
}

// afterUndo removes the folders that the programs made. They must have ended.
func afterUndo(_ context.Context, s *Setup, keepLogs bool) error {
	var errs []error
	for _, dir := range made(s, keepLogs) {
		if err := removeTree(dir); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a folder with what is in it. Links are removed themselves, and not followed.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A link to a folder is no folder to ReadDir's entries, and Remove takes the link.
	errs := []error{err}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			errs = append(errs, removeTree(path))
		} else if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// leftovers looks for everything that join, and the programs of a node, make.
func leftovers(ctx context.Context, s *Setup) (list []string, err error) {
	for _, e := range s.Journal.Steps {
		list = append(list, "step "+e.ID)
	}
	m, err := services.Connect()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	for _, p := range services.Programs {
		st, err := m.Get(p.Name)
		if err != nil {
			return nil, err
		}
		if st != nil && services.CheckOwner(st.Spec) == nil {
			list = append(list, "service "+p.Name)
		}
	}

	files := []string{s.Kubeconfig(), s.CAFile(), s.Pair(), s.PendingKey(),
		filepath.Join(s.Kubernetes, "kube-proxy.yaml"), filepath.Join(cniConf(s), podnet.WindowsConfName),
		filepath.Join(s.State, routes.NodesFile)}
	for _, name := range []string{bootrecord.Network, bootrecord.Services, bootrecord.Pods} {
		files = append(files, filepath.Join(s.State, name))
	}
	for _, path := range append(files, made(s, false)...) {
		if strings.HasSuffix(path, "logs") || filepath.Base(path) == "pods" || filepath.Base(path) == "containers" {
			continue // --keep-logs
		}
		if _, err := os.Lstat(path); err == nil {
			list = append(list, "file "+path)
		}
	}
	for _, look := range []func() ([]string, error){
		func() ([]string, error) { return leftInstalled(s.InstallDir) },
		func() ([]string, error) { return leftInSwitch(ctx, s) },
	} {
		found, err := look()
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}

	_, err = hcn.New(hcn.Options{}).NetworkByName(ctx, podnet.NetworkName)
	if err == nil {
		list = append(list, "HNS network "+podnet.NetworkName)
	} else if !hns.IsAbsent(err) {
		return nil, err
	}
	ids, err := runtime.SandboxIDs(ctx, runtimeEndpoint(s.CRISocket))
	for _, id := range ids {
		list = append(list, "sandbox "+id)
	}
	return list, err
}

// leftInstalled returns the installed programs that are left. That of this process cannot be removed: Windows does so
// when it starts again.
// A program of this process is told by what file it is, not by its path.
func leftInstalled(dir string) (list []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own, err := os.Stat(self)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(dir, "versions"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if st, err := os.Stat(path); err == nil && os.SameFile(st, own) {
			return nil
		}
		list = append(list, "file "+path)
		return nil
	})
	return list, err
}
