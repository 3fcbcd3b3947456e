package path

import (
	"context"
	"encoding/json"
	"fmt"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/path"
)

const defaultDir = cluster.DefaultDir

// localFacts asks every node of the local cluster, and its router. A node that does not answer is one without facts; unknown says why.
func localFacts(ctx context.Context, dir string) (nodes []path.Node, unknown string, err error) {
	layout, err := cluster.NewLayout(dir)
	if err != nil {
		return nil, "", err
	}
	outputs, err := cluster.NodeFacts(ctx, layout)
	if err != nil && len(outputs) == 0 {
		return nil, "", err
	}
	if err != nil {
		unknown = err.Error()
	}
	for name, data := range outputs {
		var n path.Node
		if err := json.Unmarshal(data, &n); err != nil {
			return nil, "", fmt.Errorf("reading the facts of %s: %w", name, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, unknown, nil
}
