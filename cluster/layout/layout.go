// Package layout names every path of a local cluster; no other code puts paths of its state folder together.
package layout

import (
	"os"
	"path/filepath"

	"porthole.dev/porthole/cluster/inspect"
)

// Layout is where a cluster lies.
type Layout struct {
	// Dir holds the state, Bin the programs (bin/ of a build).
	Dir, Bin string
}

// DefaultDir is the state folder unless --dir names another.
const DefaultDir = inspect.DefaultDir

// New is the layout of the cluster in dir, run by the programs beside this one.
func New(dir string) (Layout, error) {
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
func (l Layout) Cache() string             { return l.at("cache") }
func (l Layout) Images() string            { return l.at("cache", "images") }
func (l Layout) RegistryLogin() string     { return l.at("registry-login") } // NAME:PASSWORD of who may push images
func (l Layout) Router() string            { return l.at("router") }
func (l Layout) OVN() string               { return l.at("ovn") }
func (l Layout) Hosts() string             { return l.at("hosts") }
func (l Layout) Host(node string) string   { return l.at("hosts", node) }
func (l Layout) Logs() string              { return l.at("logs") }
func (l Layout) Log(process string) string { return l.at("logs", process+".log") }

// WindowsPrograms is the folder below the C: of all Windows nodes with the programs that all of them have.
func (l Layout) WindowsPrograms() string { return l.at("wine", "programs") }

// Credential is a file of the folder of keys and certificates.
func (l Layout) Credential(name string) string { return filepath.Join(l.PKI(), name) }

// KubeconfigOf is the kubeconfig of a component of the cluster.
func (l Layout) KubeconfigOf(user string) string { return l.Credential(user + ".kubeconfig") }

// Applied exists once the API server of this run has the objects that every cluster has.
func (l Layout) Applied() string { return filepath.Join(l.RunDir(), "applied") }

// Ready exists once a node of this run has been Ready.
func (l Layout) Ready(node string) string { return filepath.Join(l.RunDir(), "ready-"+node) }

// Checked exists once the data path of this run has been tested, so that `up` on a running cluster creates no pods.
func (l Layout) Checked() string { return filepath.Join(l.RunDir(), "checked") }

// NodeLog is the log of a node's process.
func (l Layout) NodeLog(node, process string) string {
	return l.at("hosts", node, "logs", process+".log")
}

// NodeFile is a file of a node's folder.
func (l Layout) NodeFile(node string, parts ...string) string {
	return filepath.Join(append([]string{l.Host(node)}, parts...)...)
}

// ContainerdSocket is where containerd of a Linux node listens.
func (l Layout) ContainerdSocket(node string) string {
	return l.NodeFile(node, "containerd", "containerd.sock")
}

// PodLogs is the folder with the logs of a Linux node's pods.
func (l Layout) PodLogs(node string) string { return l.NodeFile(node, "log", "pods") }
