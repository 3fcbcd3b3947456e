package path

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/path"
)

// errNotOurs says what a 404 of a kubelet means.
var errNotOurs = errors.New(
	"its kubelet is none of Porthole, or of an older version: run porthole facts on the node and give the file with --facts")

// askKubelets asks the kubelets of all nodes at once for the facts of their nodes, through the API server. unknown
// says why of those that did not answer.
func askKubelets(ctx context.Context, kubeconfig string, nodes []path.ClusterNode) (answered []path.Node,
	unknown string) {
	client, _, err := networkapi.New(apiconn.Options{Kubeconfig: kubeconfig, UserAgent: "porthole-path", QPS: 100,
		Burst: 200})
	if err != nil {
		return nil, err.Error()
	}
	var mu sync.Mutex
	var silent []string
	var tasks sync.WaitGroup
	for _, n := range nodes {
		tasks.Go(func() {
			facts, err := factsOf(ctx, client, n.Name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Sprintf("asking %s for its facts: %v", n.Name, err))
				return
			}
			answered = append(answered, facts)
		})
	}
	tasks.Wait()
	slices.Sort(silent)
	return answered, strings.Join(silent, "; ")
}

func factsOf(ctx context.Context, client *networkapi.Client, node string) (facts path.Node, err error) {
	data, err := client.AskNode(ctx, node, "porthole/facts")
	if networkapi.IsNotFound(err) {
		return facts, errNotOurs
	}
	if err == nil {
		err = json.Unmarshal(data, &facts)
	}
	return facts, err
}
