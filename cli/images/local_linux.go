package images

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
)

func addLocalFlag(fs *pflag.FlagSet, dir *string) {
	program.StateDir(fs, dir, layout.DefaultDir, "state folder of the local cluster")
}

// findLocal returns what the local cluster in a folder has; there may be none.
func findLocal(dir string) (localCluster, error) {
	l, err := layout.New(dir)
	if err != nil {
		return localCluster{}, err
	}
	mirror, err := config.RegistryURL(l)
	return localCluster{kubeconfig: l.Kubeconfig(), mirror: mirror}, err
}

// onNode runs the command on a node of the local cluster, as `porthole host run` would. Without an
// endpoint the runtime is reached as the node's kubelet does.
func onNode(f importFlags, path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	full, err := filepath.Abs(path)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return err
	}
	l, err := layout.New(f.state)
	if err != nil {
		return err
	}
	h, err := host.Store{Dir: l.Dir}.Get(f.node)
	if err != nil {
		return err
	}
	if h.OS != "windows" {
		return fmt.Errorf("node %s is no Windows node", f.node)
	}

	if f.endpoint == "" {
		f.endpoint = windowsEndpoint
	}
	// Programs under Wine see this machine's files on drive Z:.
	code, err := host.Run(h, host.RunOptions{Show: []string{filepath.Dir(full)}}, l.WindowsExe("porthole"),
		f.arguments(`Z:`+strings.ReplaceAll(full, "/", `\`))...)
	if err == nil && code != 0 {
		err = program.ExitCode(code)
	}
	return err
}

// arguments are the command line of this command on a node, which sees the archive at path.
func (f *importFlags) arguments(path string) []string {
	args := []string{"images", "import", path, "--runtime-endpoint=" + f.endpoint, "--isolation=" + f.isolation}
	if f.build != "" {
		args = append(args, "--build="+f.build, "--arch="+f.arch)
	}
	if f.dryRun {
		args = append(args, "--dry-run")
	}
	return args
}
