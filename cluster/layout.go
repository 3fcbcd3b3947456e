package cluster

import (
	"os"
	"path/filepath"

	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/supervise"
)

// Layout names every path of a cluster; no other code puts paths together.
type Layout struct {
	// Dir holds the state, Bin the programs (bin/ of a build).
	Dir, Bin string
}

func (l Layout) at(parts ...string) string {
	return filepath.Join(append([]string{l.Dir}, parts...)...)
}

// Porthole is this program.
func (l Layout) Porthole() string { return filepath.Join(l.Bin, "porthole") }

// Bundled is a third-party program.
func (l Layout) Bundled(name string) string { return filepath.Join(l.Bin, "bundle", name) }

// WindowsExe is one of our programs for Windows.
func (l Layout) WindowsExe(name string) string { return filepath.Join(l.Bin, "windows", name+".exe") }

func (l Layout) Kubeconfig() string        { return l.at(inspect.Kubeconfig) }
func (l Layout) ConfigFile() string        { return l.at(inspect.ConfigFile) }
func (l Layout) LockFile() string          { return l.at("up.lock") }
func (l Layout) RunDir() string            { return l.at("run") }
func (l Layout) PKI() string               { return l.at("pki") }
func (l Layout) ControlPlane() string      { return l.at("controlplane") }
func (l Layout) Images() string            { return l.at("cache", "images") }
func (l Layout) RegistryLogin() string     { return l.at("registry-login") } // NAME:PASSWORD of who may push images
func (l Layout) Hosts() string             { return l.at("hosts") }
func (l Layout) Host(node string) string   { return l.at("hosts", node) }
func (l Layout) Log(process string) string { return l.at("logs", process+".log") }

// appliedFile exists once the API server of this run has the objects that every cluster has.
func appliedFile(l Layout) string { return filepath.Join(l.RunDir(), "applied") }

// readyFile exists once a node of this run has been Ready.
func readyFile(l Layout, node string) string { return filepath.Join(l.RunDir(), "ready-"+node) }

// NodeLog is the log of a node's process.
func (l Layout) NodeLog(node, process string) string {
	return l.at("hosts", node, "logs", process+".log")
}

// NodeFile is a file of a node's folder.
func (l Layout) NodeFile(node string, parts ...string) string {
	return filepath.Join(append([]string{l.Host(node)}, parts...)...)
}

// DefaultDir is the state folder unless --dir names another.
const DefaultDir = inspect.DefaultDir

// NewLayout is the layout of the cluster in dir, run by the programs beside this one.
func NewLayout(dir string) (Layout, error) {
	self, err := os.Executable()
	if err != nil {
		return Layout{}, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return Layout{}, err
	}
	dir, err = filepath.Abs(dir)
	return Layout{Dir: dir, Bin: filepath.Dir(self)}, err
}

// SupervisorOptions are those of the cluster's supervisor.
func SupervisorOptions(l Layout) supervise.Options {
	return supervise.Options{RunDir: l.RunDir(), Self: []string{l.Porthole(), "supervise", "--dir", l.Dir},
		Log: l.Log("supervisor")}
}
