package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/path"
)

// Options of Read.
type Options struct {
	// Name of the machine: that of its Node object, or any for a router. Empty: the host's name in lower case.
	Name string
	// ConfDirs are the folders with CNI configurations.
	ConfDirs []string
	// Routes is the address of the status of `porthole routes`. Empty: it is not asked for its mode.
	Routes string
	// OVS is the database of this host's Open vSwitch, NB and SB are OVN's databases, as Open vSwitch writes
	// addresses. Empty: not read. The first is read on nodes of the mode ovn only.
	OVS, NB, SB string
}

// DefaultConfDirs are the folders that container runtimes read for CNI configurations.
func DefaultConfDirs() []string {
	if runtime.GOOS == "windows" {
		return []string{`C:\etc\cni\net.d`, `C:\Program Files\containerd\cni\conf`}
	}
	return []string{"/etc/cni/net.d"}
}

// Read reads this machine's facts. What cannot be read is in Unread; the error is for a machine without a name only.
func Read(ctx context.Context, o Options) (path.Node, error) {
	n := path.Node{Name: o.Name, System: runtime.GOOS, At: time.Now().UTC().Truncate(time.Second),
		Unread: map[string]string{}}
	if n.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return n, fmt.Errorf("reading the host's name: %w", err)
		}
		n.Name = strings.ToLower(name)
	}
	// What cannot be read is noted by name, and the reading goes on.
	unread := func(what string, err error) {
		if err != nil {
			n.Unread[what] = err.Error()
		}
	}

	state, err := platform.ReadNetwork()
	unread(path.UnreadRoutes, err)
	unread(path.UnreadNeighbours, state.NeighboursError)
	convert(&n, state)
	for what, err := range readServices(ctx, &n) {
		unread(what, err)
	}
	n.Mode, err = mode(ctx, o.Routes)
	unread(path.UnreadMode, err)
	ovs, ovn := readOVN(ctx, &n, o)
	unread(path.UnreadOVS, ovs)
	unread(path.UnreadOVN, ovn)
	n.Confs, err = confs(o.ConfDirs)
	unread(path.UnreadConfs, err)
	return n, nil
}

func convert(n *path.Node, s platform.NetworkState) {
	for _, i := range s.Interfaces {
		n.Interfaces = append(n.Interfaces, path.Interface(i))
	}
	for _, e := range s.Forwards {
		n.Forwards = append(n.Forwards, path.Forward(e))
	}
	for _, r := range s.Routes {
		n.Routes = append(n.Routes, path.Route(r))
	}
	for _, e := range s.Neighbours {
		state := path.NeighbourOther
		switch {
		case e.Failed:
			state = path.NeighbourFailed
		case e.Permanent:
			state = path.NeighbourPermanent
		}
		n.Neighbours = append(n.Neighbours,
			path.Neighbour{Address: e.Address, MAC: e.MAC, Interface: e.Interface, State: state})
	}
}

// mode asks `porthole routes` on this machine.
func mode(ctx context.Context, address string) (string, error) {
	if address == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking porthole routes: %w", err)
	}
	defer resp.Body.Close()

	var status struct{ Mode string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&status); err != nil {
		return "", fmt.Errorf("asking porthole routes: %w", err)
	}
	return status.Mode, nil
}

// confs lists the CNI configurations that a runtime would read.
func confs(dirs []string) (files []string, err error) {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for _, e := range entries {
			if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files, nil
}
