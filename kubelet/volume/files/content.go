package files

import (
	"fmt"
	"strings"

	"porthole.dev/porthole/kubelet/volume/paths"
)

// File is one file that a volume should hold.
type File struct {
	Data []byte
	Mode int32
	UID  *int64 // owner; nil leaves root
}

// Content maps slash-separated relative paths to files.
type Content map[string]File

// Merge adds the files of other. It refuses a path that both have.
func (c Content) Merge(other Content) error {
	for p, f := range other {
		if _, twice := c[p]; twice {
			return fmt.Errorf("conflicting duplicate paths: %q", p)
		}
		c[p] = f
	}
	return nil
}

// Check refuses paths that lead out of the volume or cannot be file names of the node's system.
func (c Content) Check(windows bool) error {
	seen := map[string]string{}
	for p := range c {
		if err := paths.CheckFilePath(p, windows); err != nil {
			return err
		}
		if windows {
			if other, twice := seen[strings.ToLower(p)]; twice {
				return fmt.Errorf("paths %q and %q are the same file on Windows", other, p)
			}
			seen[strings.ToLower(p)] = p
		}
	}
	return nil
}
