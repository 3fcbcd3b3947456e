package serve

import (
	"context"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
)

// removeEndedNamespaces deletes the HCN namespaces whose Linux network namespace has been removed. containerd on Windows deletes
// the HCN namespace of a pod with the pod. The Linux containerd of an emulated host removes the Linux namespace instead, and
// calls CNI before; but if the pod's network was never complete, it ignores that this call failed (internal/cri/server in
// v2.3.6), as it does while the service is stopped. Without this the HCN namespace would stay for ever.
//
// While the service does not run nothing is deleted, as a call would not be either.
func (s *Service) removeEndedNamespaces(ctx context.Context) error {
	if s.netnsGone == nil || s.life.refusal() != nil {
		return nil
	}
	var ended []*hnsd.Object
	for _, o := range s.state.Load().List(hnsd.Namespace) {
		if o.Path != "" && s.netnsGone(o.Path) {
			ended = append(ended, o)
		}
	}

	for _, o := range ended {
		err := s.write(ctx, func(state *hnsd.State) (*hnsd.State, error) {
			if now, ok := state.Get(hnsd.Namespace, o.ID); !ok || now.Path != o.Path {
				return state, nil
			}
			return s.host.Delete(state, hnsd.Namespace, o.ID)
		})
		if err != nil {
			return err
		}
		klog.FromContext(ctx).Info("HNS namespace deleted with its Linux network namespace", "namespace", o.ID, "path", o.Path)
	}
	return nil
}
