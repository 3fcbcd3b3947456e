package images

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
)

type exportFlags struct {
	sources
	builds                         []string
	arch, isolation, output, state string
	dryRun                         bool
}

func exportCommand() *cobra.Command {
	f := exportFlags{}
	c := &cobra.Command{
		Use:   "export IMAGE... --build BUILD --output FILE",
		Short: "Write images for nodes of some builds of Windows into an archive",
		Long: `Fetches from the registry the variants of each image that nodes of the given builds run, and writes them as an OCI image layout in a
tar file. On nodes without a registry "porthole images import" reads it, and so does containerd's "ctr -n k8s.io images import".
Every layer is checked against its digest. If an image has no variant for one of the builds, that is an error and no file is written.`,
		Example: `  porthole images export mcr.microsoft.com/windows/nanoserver:ltsc2022 --build 20348 --output nanoserver.tar
  porthole images export shop/app:2 shop/web:7 --build 20348,26100 --output shop.tar
  porthole images export shop/app:2 --build 26100 --output shop.tar --dry-run`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c.Context(), c.OutOrStdout(), args) },
	}

	fs := c.Flags()
	fs.StringSliceVar(&f.builds, "build", nil,
		"builds of the nodes that will import the archive: 20348, 10.0.20348, ltsc2022 (required)")
	fs.StringVar(&f.arch, "arch", "amd64", "architecture of these nodes")
	fs.StringVar(&f.isolation, "isolation", "process", "isolation of the containers: process, hyperv or hostprocess")
	fs.StringVar(&f.output, "output", "", "file to write (required)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be written, and fetch no layers")
	f.addTo(fs)
	addLocalFlag(fs, &f.state)
	return c
}

// run chooses the variants of all images before it fetches any layer, so that an image without a fitting variant is
// found before the time of fetching is spent.
func (f *exportFlags) run(ctx context.Context, out io.Writer, names []string) error {
	isolation, ok := isolations[f.isolation]
	switch {
	case !ok:
		return fmt.Errorf("--isolation %s: process, hyperv and hostprocess are known", f.isolation)
	case len(f.builds) == 0:
		return errors.New(
			"--build is needed: the builds of the nodes that will import the archive, for example --build 20348,26100")
	case f.output == "":
		return errors.New("--output is needed: the file to write")
	}
	hosts, err := hostsOfBuilds(f.builds, f.arch)
	if err != nil {
		return err
	}
	if local, err := findLocal(f.state); err == nil {
		f.useLocal(local)
	}

	selections, total, err := f.selectAll(ctx, out, names,
		func(ctx context.Context, i *registry.Image) (*registry.Selection, error) {
			return i.Select(ctx, hosts, isolation)
		})
	if err != nil {
		return err
	}
	if f.dryRun {
		fmt.Fprintf(out, "%s would have %s; nothing was written\n", f.output, bytesText(total))
		return nil
	}
	if err := f.write(ctx, out, selections, total); err != nil {
		return fmt.Errorf("writing %s: %w", f.output, err)
	}
	fmt.Fprintf(out, "wrote %s\n", f.output)
	return nil
}

// selectAll chooses the wanted variants of each image and prints them. total is their size in bytes.
func (f *exportFlags) selectAll(ctx context.Context, out io.Writer, names []string,
	choose func(context.Context, *registry.Image) (*registry.Selection, error)) (all []*registry.Selection, total int64,
	err error) {
	for _, name := range names {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		found, err := f.find(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		s, err := choose(ctx, found)
		if err != nil {
			return nil, 0, err
		}
		all, total = append(all, s), total+s.Bytes()
		fmt.Fprintf(out, "%s for %s: %d %s, %s\n", found.Name, winbuild.Image{Platforms: s.Variants}.Contents(),
			s.Layers(), word(s.Layers(), "layer"), bytesText(s.Bytes()))
	}
	return all, total, nil
}

// write writes to a temporary file and renames it at the end, so that an interrupted run leaves no file that looks
// complete.
func (f *exportFlags) write(ctx context.Context, out io.Writer, selections []*registry.Selection, total int64) error {
	file, err := os.CreateTemp(filepath.Dir(f.output), filepath.Base(f.output)+".part-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()

	buffered := bufio.NewWriterSize(file, 1<<20)
	p := &progress{out: out, what: "fetched", total: total}
	if err := registry.WriteArchive(ctx, buffered, selections, p.at); err != nil {
		return err
	}
	if err := errors.Join(buffered.Flush(), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), f.output)
}

// progress prints how many bytes of a total are done, once a second at most.
type progress struct {
	out   io.Writer
	what  string
	total int64
	last  time.Time
}

const progressPeriod = time.Second

func (p *progress) at(done int64) {
	if now := time.Now(); now.Sub(p.last) >= progressPeriod {
		if !p.last.IsZero() { // what takes less than a second needs no line
			fmt.Fprintf(p.out, "%s %s of %s\n", p.what, bytesText(done), bytesText(p.total))
		}
		p.last = now
	}
}

// bytesText returns n bytes in the largest unit of which there is one, with one decimal: "1.5 GB".
func bytesText(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}

// word returns the plural of a word unless n is 1.
func word(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}
