package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/internal/atomicfile"
)

// shutdownFile is upstream's name, in the kubelet's folder.
const shutdownFile = "graceful_node_shutdown_state"

// shutdownTimes are when the last shutdown of the machine began and ended for this kubelet; zero for not at all. The
// form is upstream's.
type shutdownTimes struct {
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`
}

// readShutdown reads what an earlier kubelet wrote down. Without a file there was no shutdown.
func readShutdown(root string) (out shutdownTimes, err error) {
	path := filepath.Join(root, shutdownFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return shutdownTimes{}, fmt.Errorf("reading when the last shutdown was from %s: %w", path, err)
	}
	return out, nil
}

func writeShutdown(root string, s shutdownTimes) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding when the shutdown was: %w", err)
	}
	return atomicfile.Write(filepath.Join(root, shutdownFile), text, 0o644)
}
