package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/platform"
)

// Host describes one host as its host.json does.
type Host struct {
	Name    string     `json:"name"`
	OS      string     `json:"os"`              // windows, or linux for a Linux node of a cluster
	Build   int        `json:"build,omitempty"` // Windows build; 0: not known
	Address netip.Addr `json:"address,omitzero"`
	Netns   string     `json:"netns"` // name of its network namespace
	// name of the cluster that it is a node of; empty: the default, or none
	Cluster string `json:"cluster,omitempty"`
	// Firewall drops inbound connections to the host unless a firewall rule allows them, as Windows Server does by
	// default.
	Firewall bool `json:"firewall,omitempty"`
	// HNSProfile names the behaviour of HNS (`porthole host create --help` lists them); "" is that of the build.
	HNSProfile string `json:"hnsProfile,omitempty"`
	// NICFlap is how long a network card has neither link nor addresses when a virtual switch takes it over or gives
	// it back.
	NICFlap time.Duration `json:"nicFlap,omitempty"`
	// Cards are network cards beside the first.
	Cards []lab.Card `json:"cards,omitempty"`
	// DNS are the DNS servers that it gets with its address. Nil: those of this machine's resolv.conf.
	DNS serve.DNSServers `json:"dns,omitzero"`
	// Memory is what its programs see of memory, in bytes: 0 is all of the machine. Its container runtime's hcsd
	// measures it.
	Memory uint64 `json:"memory,omitempty"`
	// Runtime is the host's container runtime: ContainerdExe, Light on a cluster's node, or "" for none.
	Runtime string `json:"runtime,omitempty"`
	// Standalone hosts were made one by one; the others belong to a cluster.
	Standalone bool `json:"standalone"`
	// ServiceManager: a cluster's node has one, which starts the node's programs. A host on its own always has one.
	ServiceManager bool `json:"serviceManager,omitempty"`

	Dir string `json:"-"` // its folder
}

// Lab is the network that the host is in.
func (h Host) Lab() lab.Lab { return lab.Lab(h.Cluster) }

// Managed reports whether the host's programs are Windows services.
func (h Host) Managed() bool { return h.Standalone || h.ServiceManager }

// Store is all hosts of one state folder.
type Store struct {
	Dir string // state folder, absolute; required
	Bin string // folder of our programs, with windows/dll below it; needed to make hosts
}

// Folder of the host called name.
func (s Store) Folder(name string) string { return filepath.Join(s.Dir, "hosts", name) }

const hostFile = "host.json"

// The name of a host becomes the name of a network interface, which Linux limits to 15 bytes.
var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,13}[a-z0-9])?$`)

// CheckName reports whether a host can be called name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf(
			"host name %q: use 1 to 15 characters of a-z, 0-9 and -, starting with a letter and not ending with -",
			name)
	}
	switch name {
	case "tor", "lo", "sw0": // the router and its interfaces
		return fmt.Errorf("host name %q is taken by the network between hosts: choose another", name)
	}
	return nil
}

// List finds all hosts, sorted by name.
func (s Store) List() ([]Host, error) {
	entries, err := os.ReadDir(filepath.Join(s.Dir, "hosts"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	var hosts []Host
	for _, e := range entries {
		if !e.IsDir() || CheckName(e.Name()) != nil {
			continue
		}
		h, err := s.read(e.Name())
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// Get finds one host.
func (s Store) Get(name string) (Host, error) {
	if err := CheckName(name); err != nil {
		return Host{}, err
	}
	_, err := os.Stat(s.Folder(name))
	if err == nil {
		return s.read(name)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return Host{}, fmt.Errorf("looking for host %s: %w", name, err)
	}

	hosts, err := s.List()
	if err != nil {
		return Host{}, err
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	have := "there are no hosts"
	if len(names) > 0 {
		have = "there are " + strings.Join(names, ", ")
	}
	return Host{}, fmt.Errorf("no host %s in %s (%s): `porthole host create %s` makes it", name, s.Dir, have, name)
}

// read describes the host in its folder, from what lies there if it has no description.
func (s Store) read(name string) (Host, error) {
	h := Host{Name: name, OS: "linux", Netns: "porthole-" + name}
	path := filepath.Join(s.Folder(name), hostFile)
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &h); err != nil {
			return h, fmt.Errorf("reading %s: %w", path, err)
		}
		if h.OS == "" {
			h.OS = "windows"
		}
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(filepath.Join(s.Folder(name), "prefix")); err == nil {
			h.OS = "windows"
		}
	default:
		return h, fmt.Errorf("reading host %s: %w", name, err)
	}
	h.Name, h.Dir = name, s.Folder(name)
	return h, nil
}

// Describe writes the description of a host that something else made, such as a node of a cluster.
func (s Store) Describe(h Host) error {
	h.Dir = s.Folder(h.Name)
	var err error
	if h.OS == "windows" {
		err = confine.MakeFolder(h.Dir)
	} else { // its containers may have user namespaces of their own
		err = platform.MakeFolder(h.Dir, platform.PassThrough)
	}
	if err == nil {
		err = h.write()
	}
	if err != nil {
		return fmt.Errorf("describing host %s: %w", h.Name, err)
	}
	return nil
}

// write keeps the description; a reader sees the old one or the new one.
func (h Host) write() error {
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteThrough(filepath.Join(h.Dir, hostFile), append(data, '\n'), 0o600)
}
