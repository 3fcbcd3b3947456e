package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// CreateOptions describe a new host.
type CreateOptions struct {
	Name    string
	Build   int        // Windows build
	Address netip.Addr // in lab.Underlay; zero: the first free one from firstAddress on
	// Firewall is Host.Firewall.
	Firewall bool
	// HNSProfile is Host.HNSProfile, Cards is Host.Cards, NICFlap is Host.NICFlap.
	HNSProfile string
	NICFlap    time.Duration
	Cards      []lab.Card
	DNS        serve.DNSServers // Host.DNS
	Memory     uint64           // Host.Memory
	Runtime    string           // Host.Runtime
	// Progress is called before something that takes seconds; may be nil.
	Progress func(what string)
}

// firstAddress is above those of cluster nodes.
var firstAddress = netip.MustParseAddr("10.99.0.101")

// Create makes a host on its own: folder, network, C:. Its processes are not started. If it fails, nothing is left.
func (s Store) Create(ctx context.Context, o CreateOptions) (Host, error) {
	h := Host{Name: o.Name, OS: "windows", Build: o.Build, Netns: lab.Default.Netns(o.Name), Standalone: true,
		Firewall:   o.Firewall,
		HNSProfile: o.HNSProfile, Cards: o.Cards, NICFlap: o.NICFlap, DNS: o.DNS, Memory: o.Memory, Runtime: o.Runtime,
		Dir: s.Folder(o.Name)}
	if err := s.checkNew(ctx, o); err != nil {
		return h, err
	}
	if err := platform.MakeFolder(filepath.Dir(h.Dir), platform.PassThrough); err != nil {
		return h, fmt.Errorf("creating host %s: %w", h.Name, err)
	}
	// Of several that try the same name, one makes the folder.
	if err := os.Mkdir(h.Dir, platform.Closed); errors.Is(err, os.ErrExist) {
		return h, errNameInUse(h.Name, s.Dir)
	} else if err != nil {
		return h, fmt.Errorf("creating host %s: %w", h.Name, err)
	}

	err := h.write() // so that an interrupted creation can be deleted
	if err == nil {
		h.Address, err = h.Lab().AddHost(h.Name, o.Address, firstAddress)
	}
	if err == nil {
		err = h.write()
	}
	if err == nil {
		err = s.Prepare(ctx, h, o.Progress)
	}
	if err != nil {
		return h, errors.Join(fmt.Errorf("creating host %s: %w", h.Name, err), s.Remove(h))
	}
	return h, nil
}

// checkNew returns why the host cannot be made. It checks before anything is made, so that a refused call leaves
// nothing behind. A network namespace of the host's name without a folder belongs to another state folder of this
// machine.
func (s Store) checkNew(ctx context.Context, o CreateOptions) error {
	if err := CheckName(o.Name); err != nil {
		return err
	}
	if _, err := wine.LookupBuild(o.Build); err != nil {
		return err
	}
	if _, err := s.Wine(ctx); err != nil {
		return err
	}
	if err := CheckRuntime(o.Runtime); err != nil {
		return err
	}
	if err := CheckMemory(o.Memory); err != nil {
		return err
	}
	if o.Memory > 0 && o.Runtime == "" {
		return errors.New("a host without a container runtime has the memory of the machine")
	}
	if _, err := hnsd.ProfileNamed(o.HNSProfile); o.HNSProfile != "" && err != nil {
		return err
	}

	if o.NICFlap < 0 || o.NICFlap > hoststack.MaxFlap {
		return fmt.Errorf("a network card can be away for at most %v, not %v", hoststack.MaxFlap, o.NICFlap)
	}
	if err := lab.CheckCards(o.Cards); err != nil {
		return err
	}
	if _, err := os.Lstat(s.Folder(o.Name)); err == nil {
		return errNameInUse(o.Name, s.Dir)
	}
	if platform.NetnsExists(lab.Default.Netns(o.Name)) {
		return fmt.Errorf("host name %s is in use: network namespace %s exists and belongs to another state folder",
			o.Name, lab.Default.Netns(o.Name))
	}
	return nil
}

func errNameInUse(name, dir string) error {
	return fmt.Errorf("host name %s is in use in %s: choose another, or `porthole host delete %s` first", name, dir,
		name)
}

// dlls is the folder of our DLLs and programs that hosts have.
func (s Store) dlls() string { return filepath.Join(s.Bin, "windows", "dll") }

// Wine finds the machine's Wine. One that our DLLs cannot mend is a wine.UnfitError: its hosts would start, and fail in
// one of a hundred ways.
func (s Store) Wine(ctx context.Context) (wine.Tools, error) {
	tools, err := wine.Find()
	if err == nil {
		err = tools.CheckFit(ctx, s.Dir, s.dlls())
	}
	return tools, err
}

// Mends says what the machine's Wine needs of each mend, and which Wine that is. It takes 20 s the first time.
func (s Store) Mends(ctx context.Context, build int) (version string, list []wine.Mend, err error) {
	b, err := wine.LookupBuild(build)
	if err != nil {
		return "", nil, err
	}
	tools, err := wine.Find()
	if err != nil {
		return "", nil, err
	}
	return tools.KnownMends(ctx, s.Dir, s.template(b))
}

// template says how the prefix that hosts of a build share is made.
func (s Store) template(b wine.Build) wine.TemplateOptions {
	return wine.TemplateOptions{Dir: wine.TemplateDir(s.Dir, b.Number), Build: b, DLLDir: s.dlls(), Owner: wine.Owner}
}

// Prepare makes whatever of the host's network and C: is not there, for example after the machine started again.
func (s Store) Prepare(ctx context.Context, h Host, progress func(string)) error {
	build, err := wine.LookupBuild(h.Build)
	if err != nil {
		return err
	}
	tools, err := s.Wine(ctx)
	if err != nil {
		return err
	}
	if err := platform.MakeFolder(h.Dir, platform.Closed); err != nil { // an earlier version made it open
		return err
	}
	if err := h.Lab().EnsureHost(h.Name, h.Address); err != nil {
		return err
	}
	if err := h.Lab().EnsureCards(h.Name, h.Cards); err != nil {
		return err
	}

	o := s.template(build)
	if _, err := os.Stat(o.Dir); errors.Is(err, os.ErrNotExist) && progress != nil {
		progress(fmt.Sprintf("making the C: that all hosts of build %d start from (about 10 s, once)", h.Build))
	}
	if err := tools.EnsureTemplate(ctx, o); err != nil {
		return err
	}
	if err := confine.Share(h.Dir); err != nil {
		return err
	}
	m := wine.PrefixMount(o.Dir, h.Dir)
	if h.Runtime == ContainerdExe {
		layer, err := s.RuntimeLayer()
		if err != nil {
			return err
		}
		m = wine.PrefixMount(o.Dir, h.Dir, layer)
	}
	if err := m.Ensure(); err != nil {
		return err
	}
	if h.Runtime == ContainerdExe {
		if err := errors.Join(h.WriteRuntimeFiles(""), h.linkRuntimeLog()); err != nil {
			return err
		}
	}
	if err := (wine.Prefix{Dir: m.Target}).SetMachine(h.Name); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(h.Dir, "logs"), 0o755)
}
