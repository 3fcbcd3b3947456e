package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/join/credential"
)

const (
	leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	// claimant is the annotation of a node's lease with the systemUUID of the machine that took the name.
	claimant = "porthole.dev/system-uuid"
	// claimTime is how long a claim counts that no kubelet renews: the machine that made it gave up, or is about to
	// start its kubelet.
	claimTime = 2 * time.Minute
	// leaseSeconds is the kubelet's default of nodeLeaseDurationSeconds.
	leaseSeconds = 40
)

// ErrTaken is wrapped by errors about a name that another machine has.
var ErrTaken = errors.New("is used by another machine")

// Claim takes the node's name for this machine, in one step that only one of several machines can do: it makes the
// node's lease, which only the node itself may, or writes the machine's UUID into it. Two machines that join with one
// name at the same moment would otherwise both run a kubelet for one Node. It returns an error that says which machine
// has the name.
func (n *Node) Claim(ctx context.Context) error {
	api, err := n.Client()
	if err != nil {
		return err
	}
	defer api.Close()
	for try := 0; ; try++ {
		again, err := n.claim(ctx, api)
		if !again || try == 4 {
			return err
		}
	}
}

// claim tries once. again is set if another machine, or a kubelet, was quicker: then the lease is to be read once more.
func (n *Node) claim(ctx context.Context, api *credential.API) (again bool, err error) {
	var l coordv1.Lease
	err = api.Do(ctx, http.MethodGet, leases+"/"+n.Name, nil, &l)
	switch credential.Code(err) {
	case http.StatusNotFound:
		err = api.Do(ctx, http.MethodPost, leases, n.lease(nil), nil)
		return credential.Code(err) == http.StatusConflict, claimed(n.Name, err)
	case http.StatusForbidden: // by an authorizer other than Kubernetes' own: the step registered looks once more
		return false, nil
	}
	if err != nil {
		return false, claimed(n.Name, err)
	}

	owner := l.Annotations[claimant]
	switch {
	case strings.EqualFold(owner, n.UUID):
		return false, nil
	case owner != "" && l.Spec.RenewTime != nil && time.Since(l.Spec.RenewTime.Time) < claimTime:
		return false, fmt.Errorf(
			"node name %s %w (systemUUID %s): give this one another name with --node-name, or have the other one leave",
			n.Name, ErrTaken, owner)
	}
	err = api.Do(ctx, http.MethodPut, leases+"/"+n.Name, n.lease(&l), nil)
	return credential.Code(err) == http.StatusConflict, claimed(n.Name, err)
}

// lease returns the node's lease with the claim in it: a new one, as a kubelet makes it, or another one changed.
func (n *Node) lease(have *coordv1.Lease) *coordv1.Lease {
	seconds := int32(leaseSeconds)
	now := metav1.NewMicroTime(time.Now())
	l := &coordv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: "kube-node-lease"},
		Spec:       coordv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds}}
	if have != nil {
		l = have.DeepCopy()
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[claimant] = strings.ToLower(n.UUID)
	l.Spec.RenewTime = &now
	return l
}

func claimed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("taking the node name %s: %w", name, err)
}
