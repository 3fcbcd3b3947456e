package runtime

import (
	"context"
	"fmt"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxIDs returns the ids of all sandboxes that the runtime at an endpoint knows, in whatever state. It connects
// for this one question. The error says what is wrong with the endpoint or with the runtime; ctx bounds the wait for
// it.
func SandboxIDs(ctx context.Context, endpoint string) ([]string, error) {
	conn, err := Dial(endpoint)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	list, err := cri.NewRuntimeServiceClient(conn).ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes of the runtime at %s: %w", endpoint, err)
	}
	ids := make([]string, 0, len(list.Items))
	for _, s := range list.Items {
		ids = append(ids, s.Id)
	}
	return ids, nil
}
