package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
	"porthole.dev/porthole/kubelet/runtime"
)

type importFlags struct {
	endpoint, build, arch, isolation, node, state string
	dryRun                                        bool
}

// Endpoints of containerd by default, as kubernetes.io ("Container Runtimes") names them.
const (
	windowsEndpoint = "npipe:////./pipe/containerd-containerd"
	linuxEndpoint   = "unix:///run/containerd/containerd.sock"
)

func importCommand() *cobra.Command {
	f := importFlags{}
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Import the images of an archive on a Windows node, without a registry",
		Long: `Passes an archive of "porthole images export" or ctr to the node's containerd, which unpacks the variants that the node runs. Pods
with the pull policy IfNotPresent or Never find the images under their names in the archive. If an image has no variant for the node's
build, that is an error and nothing is imported. Images of the same names on the node are replaced.

It runs on the node itself. With --node it is started on a node of the local cluster: there, too, it reaches the runtime at the node's
named pipe.`,
		Example: `  porthole images import shop.tar                            # on a Windows node
  porthole images import shop.tar --dry-run
  porthole images import shop.tar --node win01               # a node of the local cluster`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.node == "" {
				return f.run(c.Context(), c.OutOrStdout(), args[0])
			}
			if !c.Flags().Changed("runtime-endpoint") {
				f.endpoint = ""
			}
			return onNode(f, args[0])
		},
	}

	fs := c.Flags()
	endpoint := linuxEndpoint
	if platform.IsWindows {
		endpoint = windowsEndpoint
	}
	fs.StringVar(&f.endpoint, "runtime-endpoint", endpoint, "containerd's socket or pipe")
	fs.StringVar(&f.build, "build", "", "build of Windows of the node; on Windows that of this host")
	fs.StringVar(&f.arch, "arch", "amd64", "architecture of the node, with --build")
	fs.StringVar(&f.isolation, "isolation", "process", "isolation of the containers: process, hyperv or hostprocess")
	fs.StringVar(&f.node, "node", "", "node of the local cluster")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be imported, and change nothing")
	addLocalFlag(fs, &f.state)
	return c
}

// run checks every image of the archive before the runtime gets it, so that an archive for other nodes is refused as a
// whole.
func (f *importFlags) run(ctx context.Context, out io.Writer, path string) error {
	isolation, ok := isolations[f.isolation]
	if !ok {
		return fmt.Errorf("--isolation %s: process, hyperv and hostprocess are known", f.isolation)
	}
	target, err := f.target()
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()

	images, err := registry.ReadArchive(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := fitting(out, images, target, isolation); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.dryRun {
		fmt.Fprintln(out, "nothing was imported")
		return nil
	}
	if err := hand(ctx, out, file, f.endpoint, target); err != nil {
		return fmt.Errorf("importing %s by the runtime at %s: %w", path, f.endpoint, err)
	}

	for _, i := range images {
		fmt.Fprintf(out, "imported %s\n", i.Name)
	}
	return nil
}

// target returns the host that the runtime works for: the flags', or this one.
func (f *importFlags) target() (winbuild.Host, error) {
	if f.build != "" {
		hosts, err := hostsOfBuilds([]string{f.build}, f.arch)
		if err != nil {
			return winbuild.Host{}, err
		}
		return hosts[0], nil
	}
	h, err := thisHost()
	if errors.Is(err, errNoHosts) {
		err = errors.New(
			"which build of Windows the runtime is for is not known: give --build, or --node for a node of the local cluster")
	}
	return h, err
}

// fitting prints the images of an archive that the host may run, and returns an error that names the others.
func fitting(out io.Writer, images []registry.Archived, host winbuild.Host, isolation winbuild.Isolation) error {
	var errs []error
	for _, i := range images {
		if i.Name == "" {
			errs = append(errs, errors.New("an image of the archive has no name"))
			continue
		}
		a := winbuild.Check(i.Image, host, isolation)
		if a.Outcome == winbuild.NotRun {
			errs = append(errs, fmt.Errorf("image %s has nothing for build %s: the archive has it for %s (%s)", i.Name,
				host.Version.Build, i.Image.Contents(), a.Rule.Text))
			continue
		}
		fmt.Fprintf(out, "%s: %s\n", i.Name, i.Image.Contents())
	}
	return errors.Join(errs...)
}

// answerTimeout bounds the first call of the runtime, which shows whether there is one.
const answerTimeout = 10 * time.Second

// hand passes the archive to the runtime of a host.
func hand(ctx context.Context, out io.Writer, file *os.File, endpoint string, of winbuild.Host) error {
	conn, err := runtime.Dial(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()

	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if _, err := runtime.New(conn, runtime.Options{}).Version(asking); err != nil {
		return fmt.Errorf("the runtime does not answer: %w", err)
	}

	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p := &progress{out: out, what: "handed over", total: size}
	return registry.Import(ctx, conn, &counted{r: file, at: p.at}, of)
}

// counted is a reader that calls at with the number of bytes read so far.
type counted struct {
	r    io.Reader
	done int64
	at   func(done int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	c.at(c.done)
	return n, err
}
