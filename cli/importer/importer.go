// Package importer is the command that turns what described Windows nodes before kubeadm into files and commands for
// joining.
package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/kubelet"
	"porthole.dev/porthole/cli/kubeproxy"
	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/join/legacy"
)

// maxDocument bounds the document that is read; those of the field have some kilobytes.
const maxDocument = 16 << 20

// Command is `porthole import`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Turn old descriptions of Windows nodes into files and commands for joining",
		Example: "  porthole import acs-engine windows.json\n" +
			"  porthole import command -- start-kubelet.ps1 -ClusterCidr 192.168.0.0/16",
	}
	c.AddCommand(acsEngine(), command())
	return c
}

func acsEngine() *cobra.Command {
	var out, output, line string
	c := &cobra.Command{
		Use:     "acs-engine FILE",
		Aliases: []string{"aks-engine"},
		Short:   "Read a cluster document of acs-engine or aks-engine",
		Long: `Reads a cluster document (apiVersion vlabs; - is standard input) and prints what becomes of each of its fields: used, refused, unknown,
dropped, or part of the cloud, which Porthole does not make. For each pool of Windows machines it prints the file that
` + "`porthole join --config`" + ` reads, and the commands, which read a token from standard input. Passwords, keys and secrets are neither printed nor written. Nothing is changed.

Exit code: 0 done, 1 the document cannot be read or something in it is refused.`,
		Example: "  porthole import acs-engine windows.json\n" +
			"  porthole import acs-engine windows.json --out nodes     # one file for each pool\n" +
			"  porthole import acs-engine windows.json --out nodes --join-line \"$(kubeadm token create --print-join-command)\"\n" +
			"  porthole import acs-engine windows.json -o json",
		Args: cobra.ExactArgs(1),

		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains([]string{"text", "json"}, output) {
				return fmt.Errorf("-o %s: text and json are known", output)
			}
			document, err := read(args[0], c.InOrStdin())
			if err != nil {
				return err
			}
			found, err := legacy.Cluster(document, func(name string) (bool, bool) { return flagOf("kubelet", name) })
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			var target legacy.Target
			if line != "" {
				if target, err = legacy.ParseLine(line); err != nil {
					return fmt.Errorf("--join-line: %w", err)
				}
			}
			if err := write(found, out, target); err != nil {
				return err
			}
			if err := show(c.OutOrStdout(), output, found,
				func(w io.Writer) error { return found.Print(w, out, target) }); err != nil {
				return err
			}
			return refusal(found.Leaves)
		},
	}
	c.Flags().StringVar(&out, "out", "", "folder for the files of the pools; empty: they are printed")
	c.Flags().StringVar(&line, "join-line", "",
		"the line that \"kubeadm token create --print-join-command\" prints: address and sum go into the files, the token does not")
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

func command() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "command -- WORD...",
		Short: "Say what becomes of a command line of the old guides",
		Long: `Reads a command line of the old guides, and prints for each flag what has its place today: those of start-kubelet.ps1,
start-kubeproxy.ps1, AddRoutes.ps1 and start.ps1, of kubelet.exe and kube-proxy.exe, and variables such as CONTAINER_NETWORK.`,
		Example: "  porthole import command -- start-kubelet.ps1 -ClusterCidr 192.168.0.0/16 -NetworkMode L2Bridge\n" +
			"  porthole import command -- kubelet.exe --pod-infra-container-image=kubeletwin/pause --api-servers=10.0.0.1\n" +
			"  porthole import command -- 'INTERFACE_TO_ADD_SERVICE_IP=vEthernet (HNS Internal NIC)'",

		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains([]string{"text", "json"}, output) {
				return fmt.Errorf("-o %s: text and json are known", output)
			}
			leaves, err := legacy.CommandLine(args, flagOf)
			if err != nil {
				return err
			}
			err = show(c.OutOrStdout(), output, leaves, func(w io.Writer) error {
				for _, l := range leaves {
					fmt.Fprintf(w, "%-8s %s = %s: %s\n", l.What, l.Path, l.Value, l.Text)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return refusal(leaves)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

// read returns a document; "-" is standard input.
func read(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = errors.New("larger than 16 MiB: this is no cluster document")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, nil
}

// write writes the pools' files, if a folder is given. One that is there is not replaced: somebody may have changed it.
func write(found legacy.Import, dir string, t legacy.Target) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	for _, p := range found.Pools {
		text, err := p.Config(t)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, p.File()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s is there already: remove it, or give another --out", filepath.Join(dir, p.File()))
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func show(w io.Writer, output string, doc any, text func(io.Writer) error) error {
	if output == "text" {
		return text(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// refusal is the exit code: 1 if something is refused.
func refusal(leaves []legacy.Leaf) error {
	if slices.ContainsFunc(leaves, func(l legacy.Leaf) bool { return l.What == legacy.Refused }) {
		return program.ExitCode(1)
	}
	return nil
}

// flagOf looks a flag up in the command that has upstream's.
func flagOf(of, name string) (known, withoutEffect bool) {
	c := kubelet.Command()
	if of == "kube-proxy" {
		c = kubeproxy.Command()
	}
	f := c.Flags().Lookup(name)
	if f == nil {
		return false, false
	}
	return true, strings.Contains(f.Usage, "no effect")
}
