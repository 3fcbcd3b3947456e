package program

import (
	"fmt"
	"regexp"

	"github.com/spf13/pflag"
)

// StateDir adds the flags --dir and --name, by which a command finds a local cluster. --name NAME means --dir
// FOLDER-NAME, where folder is the state folder of the cluster without a name. If both are given, --dir decides.
func StateDir(fs *pflag.FlagSet, dir *string, folder, what string) {
	fs.StringVar(dir, "dir", folder, what)
	fs.Var(&clusterName{fs: fs, dir: dir, folder: folder}, "name",
		"name of the cluster, of several on this machine (porthole up --name); its state folder is "+folder+"-NAME")
}

// clusterNames are those that a cluster can have: they are part of names of network namespaces, cgroups and folders.
var clusterNames = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// clusterName is the value of --name.
type clusterName struct {
	fs                *pflag.FlagSet
	dir               *string
	folder, nameGiven string
}

func (n *clusterName) String() string { return n.nameGiven }
func (n *clusterName) Type() string   { return "string" }

func (n *clusterName) Set(name string) error {
	if !clusterNames.MatchString(name) {
		return fmt.Errorf("%q: use 1 to 20 characters of a-z, 0-9 and -, starting with a letter and not ending with -",
			name)
	}
	n.nameGiven = name
	if !n.fs.Changed("dir") {
		*n.dir = n.folder + "-" + name
	}
	return nil
}
