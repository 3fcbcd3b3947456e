package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/join/credential"
)

// Registered is the step of the Node object: it must be this machine's, not that of another one with the same name.
type Registered struct{ Node *Node }

type registeredValue struct {
	Node string `json:"node"`
	UUID string `json:"systemUUID"`
}

// Waits marks a step that waits for the kubelet.
func (Registered) Waits() {}

// Continues marks a step that the kubelet finishes.
func (Registered) Continues() {}

// ID returns the step's name.
func (Registered) ID() string { return "registered" }

// Wanted returns the node with the UUID of this machine.
func (r Registered) Wanted() any { return registeredValue{r.Node.Name, strings.ToLower(r.Node.UUID)} }

// Observe reads the Node. While the API server does not answer there is nothing that is as wanted: Apply, which
// changes nothing, waits.
func (r Registered) Observe(ctx context.Context) (any, error) {
	n, err := r.Node.read(ctx)
	if errors.Is(err, credential.ErrUnreachable) {
		return nil, nil
	}
	if n == nil || err != nil {
		return nil, err
	}
	return registeredValue{n.Name, strings.ToLower(n.Status.NodeInfo.SystemUUID)}, nil
}

// read returns the Node object; nil if there is none.
func (n *Node) read(ctx context.Context) (*v1.Node, error) {
	api, err := n.Client()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	node, err := api.NodeOf(ctx, n.Name)
	if credential.Code(err) == http.StatusUnauthorized {
		return nil, fmt.Errorf("the API server refuses the node's certificate: %w", err)
	}
	return node, err
}

// Apply waits until the kubelet has registered the node.
func (r Registered) Apply(ctx context.Context) error {
	return wait(ctx, func() (bool, error) {
		n, err := r.Node.read(ctx)
		if err != nil {
			return false, err
		}
		if n == nil || n.Status.NodeInfo.SystemUUID == "" {
			return false, fmt.Errorf("the kubelet has not registered node %s yet", r.Node.Name)
		}
		if uuid := n.Status.NodeInfo.SystemUUID; !strings.EqualFold(uuid, r.Node.UUID) {
			return false, errors.Join(errFinal,
				fmt.Errorf("node name %s is used by another machine (systemUUID %s)", r.Node.Name, uuid))
		}
		return true, nil
	})
}

// Undo does nothing: a node may not delete its own Node object. `porthole leave` says who can.
func (Registered) Undo(context.Context, []byte) error { return nil }

// Ready is the step of the condition Ready of the Node.
type Ready struct{ Node *Node }

// Waits marks a step that waits for the kubelet: one that has just started says for a moment that it is not ready.
func (Ready) Waits() {}

// Continues marks a step that the kubelet finishes.
func (Ready) Continues() {}

// ID returns the step's name.
func (Ready) ID() string { return "ready" }

// Wanted returns that it is Ready.
func (Ready) Wanted() any { return map[string]bool{"ready": true} }

// Observe reads the condition. An API server that does not answer is waited for, as with Registered.
func (r Ready) Observe(ctx context.Context) (any, error) {
	n, err := r.Node.read(ctx)
	if errors.Is(err, credential.ErrUnreachable) {
		return map[string]bool{"ready": false}, nil
	}
	if err != nil {
		return nil, err
	}
	ready, _ := condition(n)
	return map[string]bool{"ready": ready}, nil
}

// condition returns whether a node is Ready, and its kubelet's words.
func condition(n *v1.Node) (ready bool, message string) {
	if n == nil {
		return false, "the node is not registered"
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue, c.Message
		}
	}
	return false, "the kubelet has not reported yet"
}

// Apply waits until the node is Ready.
func (r Ready) Apply(ctx context.Context) error {
	return wait(ctx, func() (bool, error) {
		err := r.Now(ctx)
		return err == nil, err
	})
}

// Now returns nil if the node is Ready, else why it is not.
func (r Ready) Now(ctx context.Context) error {
	n, err := r.Node.read(ctx)
	if err != nil {
		return err
	}
	if ready, message := condition(n); !ready {
		return fmt.Errorf("node %s is not Ready: %s", r.Node.Name, message)
	}
	return nil
}

// Undo does nothing.
func (Ready) Undo(context.Context, []byte) error { return nil }

// Describe words the node for the last line of a join.
func (n *Node) Describe(ctx context.Context) string {
	node, err := n.read(ctx)
	if err != nil || node == nil {
		return ""
	}
	i := node.Status.NodeInfo
	return fmt.Sprintf("kubelet %s, %s, %s", i.KubeletVersion, i.ContainerRuntimeVersion, i.OSImage)
}
