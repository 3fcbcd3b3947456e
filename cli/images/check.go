package images

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/internal/winbuild"
)

// notEverywhere is the exit code if a host does not run an image.
const notEverywhere = program.ExitCode(1)

type checkFlags struct {
	sources
	builds                                     []string
	arch, isolation, kubeconfig, state, output string
	keepGoing                                  bool
}

func checkCommand() *cobra.Command {
	f := checkFlags{}
	c := &cobra.Command{
		Use:   "check IMAGE...",
		Short: "Show on which Windows nodes an image runs",
		Long: `Reads the index of each image from its registry, and shows for each Windows node whether it runs the image, with the variant and
the rule of compatibility between builds of Windows that decide it. Kubelets of Windows nodes use the same rules before they pull.

The nodes are those of the cluster of --kubeconfig, by default those of the local cluster, or on Windows this host. With --build
builds are checked instead of nodes.

Exit code: 0 no image is known not to run on a node; 1 an image does not run on a node, or is not known; 2 nothing was checked.`,
		Example: `  porthole images check porthole/testapp:1                         # the nodes of the local cluster
  porthole images check mcr.microsoft.com/windows/nanoserver:ltsc2022 --build 20348,26100
  porthole images check shop/app:2 --kubeconfig admin.conf -o json
  porthole images check shop/app:2 --build ltsc2025 --isolation hyperv`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			results, err := f.run(c.Context(), args)
			if err != nil {
				fmt.Fprintln(c.ErrOrStderr(), "porthole:", err)
				return program.ExitCode(2)
			}
			return printResults(c.OutOrStdout(), results, f.output)
		},
	}

	fs := c.Flags()
	fs.StringSliceVar(&f.builds, "build", nil,
		"builds of Windows to check in place of nodes: 20348, 10.0.20348, ltsc2022")
	fs.StringVar(&f.arch, "arch", "amd64", "architecture of the hosts that --build names")
	fs.StringVar(&f.isolation, "isolation", "process", "isolation of the containers: process, hyperv or hostprocess")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster whose nodes are checked")
	fs.BoolVar(&f.keepGoing, "keep-going", false, "say why of an image that cannot be read, and go on with the others")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	f.addTo(fs)
	addLocalFlag(fs, &f.state)
	return c
}

// result is where one image runs. With an Error nothing is known of that.
type result struct {
	Image string         `json:"image"`
	Error string         `json:"error,omitempty"`
	Is    winbuild.Image `json:"contents"`
	Hosts []hostResult   `json:"hosts"`
}

type hostResult struct {
	Node      string `json:"node,omitempty"`
	Build     int    `json:"build"`
	Release   string `json:"release,omitempty"`
	Isolation string `json:"isolation"`
	// Outcome is runs, does not run, or unknown.
	Outcome string `json:"outcome"`
	// Variant is the variant that runs, or else the nearest one (winbuild.Answer.Platform).
	Variant *winbuild.Platform `json:"variant,omitempty"`
	*winbuild.Rule
}

var isolations = map[string]winbuild.Isolation{"process": winbuild.Process, "hyperv": winbuild.HyperV,
	"hostprocess": winbuild.HostProcess}

// lookups is how many images are looked up at once.
const lookups = 4

// run looks up every image and compares it with every host. One image that cannot be read fails the whole, because a
// table without it would look complete; with --keep-going its result says why.
func (f *checkFlags) run(ctx context.Context, names []string) ([]result, error) {
	if f.output != "text" && f.output != "json" {
		return nil, fmt.Errorf("-o %s: text and json are known", f.output)
	}
	isolation, ok := isolations[f.isolation]
	if !ok {
		return nil, fmt.Errorf("--isolation %s: process, hyperv and hostprocess are known", f.isolation)
	}
	hosts, err := f.hosts(ctx)
	if err != nil {
		return nil, err
	}

	out := make([]result, len(names))
	errs := make([]error, len(names))
	slots := make(chan struct{}, lookups)
	var tasks sync.WaitGroup
	for i, name := range names {
		tasks.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i], errs[i] = f.check(ctx, name, hosts, isolation)
		})
	}
	tasks.Wait()
	for i, err := range errs {
		switch {
		case err != nil && !f.keepGoing:
			return nil, err
		case err != nil:
			out[i].Error = err.Error()
		}
	}
	return out, nil
}

func (f *checkFlags) check(ctx context.Context, name string, hosts []winbuild.Host,
	isolation winbuild.Isolation) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	r := result{Image: name}
	found, err := f.find(ctx, name)
	if err != nil {
		return r, err
	}
	if r.Is, err = found.Platforms(ctx); err != nil {
		return r, err
	}
	r.Image = found.Name
	for _, h := range hosts {
		r.Hosts = append(r.Hosts, resultOf(r.Is, h, isolation))
	}
	return r, nil
}

func resultOf(is winbuild.Image, h winbuild.Host, isolation winbuild.Isolation) hostResult {
	a := winbuild.Check(is, h, isolation)
	r := hostResult{Node: h.Name, Build: int(h.Version.Build), Release: h.Version.Build.Name(),
		Isolation: isolation.String(), Outcome: a.Outcome.String()}
	if a.Outcome != winbuild.Unknown {
		r.Variant, r.Rule = &a.Platform, &a.Rule
	}
	return r
}

// hosts returns the hosts to check. If there is a local cluster, it also makes its registry the mirror.
func (f *checkFlags) hosts(ctx context.Context) ([]winbuild.Host, error) {
	local, localErr := findLocal(f.state)
	if localErr == nil {
		f.useLocal(local)
	}
	switch {
	case len(f.builds) > 0:
		return hostsOfBuilds(f.builds, f.arch)
	case f.kubeconfig != "":
		return hostsOfCluster(ctx, f.kubeconfig)
	case localErr == nil:
		return hostsOfCluster(ctx, local.kubeconfig)
	}
	h, err := thisHost()
	return []winbuild.Host{h}, err
}

// printResults prints the results and returns the error notEverywhere, which only sets the exit code, if a host does
// not run an image, or an image could not be read. An unknown outcome sets none: the runtime may run the image.
func printResults(out io.Writer, results []result, output string) error {
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(results); err != nil {
			return err
		}
	}

	var end error
	for _, r := range results {
		if output != "json" {
			r.print(out)
		}
		if r.Error != "" {
			end = notEverywhere
		}
		for _, h := range r.Hosts {
			if h.Outcome == winbuild.NotRun.String() {
				end = notEverywhere
			}
		}
	}
	return end
}

// print prints the table of one image. The variant and the rule are missing where the registry did not say enough.
func (r result) print(out io.Writer) {
	if r.Error != "" {
		fmt.Fprintf(out, "%s is not known: %s\n", r.Image, r.Error)
		return
	}
	contents := r.Is.Contents()
	if r.Is.Unnamed || contents == "" {
		contents = strings.TrimPrefix(contents+", and platforms that its index does not give", ", ")
	}
	fmt.Fprintf(out, "%s is for %s\n", r.Image, contents)

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  NODE\tBUILD\tANSWER\tVARIANT\tRULE")
	for _, h := range r.Hosts {
		node := h.Node
		variant := "-"
		rule := "the registry does not give enough to decide; the runtime will"
		if node == "" {
			node = "-"
		}
		if h.Variant != nil {
			variant, rule = h.Variant.String(), h.Text
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", node, winbuild.Build(h.Build), h.Outcome, variant, rule)
	}
	_ = w.Flush() // as with each line: who reads the output may be gone
}
