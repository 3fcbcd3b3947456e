package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"porthole.dev/porthole/internal/atomicfile"
)

// Profile has the slow and faulty behaviours of containerd on Windows that a host's runtime shows. The zero value has none of them. It is
// a file in the host's folder and is read at each call, so that a change takes effect at once.
type Profile struct {
	// LateEnds: the end of a container is seen 5 s after its start at the earliest, and a start that fails takes 5 s (see lateBy).
	LateEnds bool `json:"lateEnds,omitempty"`
	// NoStats are pods, as namespace/name, whose sandboxes have no statistics; * is every pod.
	NoStats []string `json:"noStats,omitempty"`
}

func profileFile(hostDir string) string { return filepath.Join(hostDir, "cri", "profile.json") }

// ReadProfile returns the profile of the host in a folder; a host without one has the zero value.
func ReadProfile(hostDir string) (Profile, error) {
	var p Profile
	data, err := os.ReadFile(profileFile(hostDir))
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return Profile{}, fmt.Errorf("reading the profile of the host's runtime: %w", err)
	}
	return p, nil
}

// Write makes the profile that of the host in a folder.
func (p Profile) Write(hostDir string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(profileFile(hostDir)), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(profileFile(hostDir), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the profile of the host's runtime: %w", err)
	}
	return nil
}

// noStats reports whether the sandbox of a pod has no statistics.
func (p Profile) noStats(namespace, name string) bool {
	return slices.Contains(p.NoStats, "*") || slices.Contains(p.NoStats, namespace+"/"+name)
}

// profile returns the host's profile, or the zero Profile if it cannot be read. The command that writes the file checks it.
func (s *Server) profile() Profile {
	p, err := ReadProfile(s.o.HostDir)
	if err != nil {
		return Profile{}
	}
	return p
}
