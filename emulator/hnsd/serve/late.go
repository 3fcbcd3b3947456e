package serve

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/wire"
)

// catchUp gives an endpoint, after a time, the policies that the call c was carried out without. It returns at once.
// Those that the endpoint has got in the meantime are not added again; an endpoint that is gone stays gone.
func (s *Service) catchUp(ctx context.Context, c call, a wire.Answer, late lateness) {
	if !c.hcn || c.kind != hnsd.Endpoint || a.Failed() {
		return
	}
	// The handle is the endpoint's: of a creation the one that the answer gives.
	handle := c.Handle
	if c.function == wire.Create {
		handle = a.Handle
	}
	id, err := s.handles.ID(handle, c.kind, c.process)
	if err != nil {
		return
	}

	go func() {
		latency.SleepUntil(ctx, time.Now().Add(late.after))
		if ctx.Err() != nil {
			return
		}
		if err := s.addMissing(ctx, id, late.policies); err != nil {
			klog.FromContext(ctx).Error(err, "Late policies were not added", "endpoint", id)
		}
	}()
}

// lateness is what a call is without, and for how long.
type lateness struct {
	policies []any // as in the document of the call
	after    time.Duration
}

// addMissing adds those of the policies that the endpoint is without.
func (s *Service) addMissing(ctx context.Context, id string, policies []any) error {
	return s.objects.Change(ctx, func(state *hnsd.State) (*hnsd.State, error) {
		o, ok := state.Get(hnsd.Endpoint, id)
		if !ok {
			return state, nil
		}
		var there struct{ Policies []any }
		// The document of the State is decoded anew, so that both lists have the same types for the
		// comparison.
		if err := json.Unmarshal([]byte(o.Doc.String()), &there); err != nil {
			return nil, err
		}

		missing := slices.DeleteFunc(slices.Clone(policies), func(p any) bool {
			return slices.ContainsFunc(there.Policies, func(other any) bool { return reflect.DeepEqual(p, other) })
		})
		if len(missing) == 0 {
			return state, nil
		}
		request, err := json.Marshal(map[string]any{"ResourceType": "Policy", "RequestType": "Add",
			"Settings": map[string]any{"Policies": missing}})
		if err != nil {
			return nil, err
		}
		return s.host.Modify(state, hnsd.Endpoint, id, hnsd.ParseDoc(string(request)))
	})
}
