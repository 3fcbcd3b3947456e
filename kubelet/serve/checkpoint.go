package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/pod"
)

// checkpointsDir, below the kubelet's root folder, holds the archives. Only root can read them, because they contain
// memory.
const checkpointsDir = "checkpoints"

// checkpoint makes the runtime write an archive of a container, and answers with its path. The codes are upstream's:
// 404 for a pod or container that does not exist, and for a timeout that is not a number; 500 if the runtime fails.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	view, ok := s.find(r)
	if !ok {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	name := r.PathValue("container")
	if !hasContainer(view.Pod, name) {
		http.Error(w, fmt.Sprintf("container %s does not exist", name), http.StatusNotFound)
		return
	}

	// The last of several timeouts counts.
	var timeout time.Duration
	if all := r.URL.Query()["timeout"]; len(all) > 0 {
		seconds, err := strconv.ParseInt(all[len(all)-1], 10, 32)
		if err != nil {
			http.Error(w, "cannot parse value of timeout parameter", http.StatusNotFound)
			return
		}
		timeout = time.Duration(seconds) * time.Second
	}

	path, err := s.takeCheckpoint(r.Context(), view, name, timeout)
	if err != nil {
		http.Error(w, fmt.Sprintf("checkpointing of %s/%s/%s failed (%v)", r.PathValue("ns"), r.PathValue("pod"), name,
			err), http.StatusInternalServerError)
		return
	}
	writeJSON(w, map[string][]string{"items": {path}})
}

// takeCheckpoint has the runtime write a checkpoint of a container into a new file in our folder, and returns the
// file's path. A timeout of zero leaves the time limit to the runtime. The file holds the container's memory, so only
// root can read the folder.
func (s *Server) takeCheckpoint(ctx context.Context, view pod.View, name string, timeout time.Duration) (string,
	error) {
	c := view.Containers[name]
	switch {
	case s.opts.Checkpoint == nil:
		return "", errors.New("the runtime client has no checkpoints")
	case timeout < 0:
		return "", errors.New("CheckpointContainer requires the timeout value to be > 0")
	case c.ID == "":
		return "", fmt.Errorf("container %s not found", name)
	}
	// The folder is made when it is first needed.
	dir := filepath.Join(s.opts.RootDir, checkpointsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("creating the folder of checkpoints: %w", err)
	}
	at := time.Now().Format(time.RFC3339)
	if platform.IsWindows { // a colon in the name of a file begins the name of a stream of it
		at = strings.ReplaceAll(at, ":", "-")
	}
	file := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", view.Pod.Name, view.Pod.Namespace, name, at)
	path := filepath.Join(dir, file)
	return path, s.opts.Checkpoint(ctx, CheckpointRequest{ContainerID: c.ID, Location: path, Timeout: timeout})
}
