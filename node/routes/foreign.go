package routes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/cni/contract"
)

// confKinds are the extensions of CNI configurations. A runtime reads such files in the order of their names, and
// takes the first.
var confKinds = []string{".conf", ".conflist", ".json"}

// beside looks at the other CNI configurations in a folder. It returns a sentence for each that matters: one before
// ours is the one that pods get, and one that cannot be read stops the runtime. Configurations of others are never
// changed: their plugins get them as they are (see docs/adr/0013-other-cni-plugins.md).
func beside(dir, ours string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for other CNI configurations: %w", err)
	}
	var said []string
	for _, e := range entries { // sorted by name
		name := e.Name()
		if name == ours {
			break // those behind ours have no effect
		}
		if e.IsDir() || !slices.Contains(confKinds, strings.ToLower(filepath.Ext(name))) {
			continue
		}

		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for other CNI configurations: %w", err)
		}
		file, err := contract.ReadFile(path, data)
		if err != nil {
			said = append(said, fmt.Sprintf("the runtime reads another CNI configuration before %s, which is wrong: %v",
				ours, err))
			continue
		}
		said = append(said,
			fmt.Sprintf(
				"pods get their network from %s (%s), which the runtime reads before %s: remove the one that you do not want, "+
					"or give no --cni-conf-dir", path, pluginNames(file), ours))
	}
	return said, nil
}

func pluginNames(f *contract.File) string {
	var names []string
	for _, p := range f.Plugins {
		names = append(names, p.Type)
	}
	return strings.Join(names, ", ")
}

// lookBeside reports other CNI configurations that matter, each once, in the log and as an event on the node.
func (a *agent) lookBeside(ctx context.Context, ours string) {
	said, err := beside(a.o.ConfDir, ours)
	if err != nil {
		said = []string{err.Error()}
	}
	for _, text := range said {
		if !slices.Contains(a.others, text) {
			klog.FromContext(ctx).Info("Another CNI configuration", "problem", text)
			a.cluster.Warn("OtherCNIConfiguration", text)
		}
	}
	a.others = said
}
