package path

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/path"
)

const defaultDir = cluster.DefaultDir

// local asks every node of the local cluster, and its router. A node that does not answer is one without facts: the way names it.
func local(ctx context.Context, dir string, errs io.Writer) (nodes []path.Node, err error) {
	layout, err := cluster.NewLayout(dir)
	if err != nil {
		return nil, err
	}
	outputs, err := cluster.NodeFacts(ctx, layout)
	if err != nil && len(outputs) == 0 {
		return nil, err
	}
	if err != nil {
		fmt.Fprintln(errs, "porthole:", err)
	}
	for name, data := range outputs {
		var n path.Node
		if err := json.Unmarshal(data, &n); err != nil {
			return nil, fmt.Errorf("reading the facts of %s: %w", name, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
