package hnstest

import (
	"context"
	"slices"

	"porthole.dev/porthole/hns"
)

// Rules is a Fake with the calls about the policies of endpoints that exist, those of hcn.Rules.
type Rules struct{ *Fake }

// AddPolicies implements the method of hcn.Rules.
func (f Rules) AddPolicies(ctx context.Context, id hns.EndpointID, policies []hns.Policy) error {
	return f.change(ctx, "add policies", func() error {
		for i := range f.endpoints {
			if f.endpoints[i].ID == id {
				f.endpoints[i].Policies = append(slices.Clone(f.endpoints[i].Policies), kept(policies, f.Drop)...)
				return nil
			}
		}
		return fail(hns.Absent, 0x490, "add policies to endpoint %s", id)
	})
}

// kept returns a copy of the policies that a host keeps which drops some.
func kept(policies []hns.Policy, drop func(hns.Policy) bool) []hns.Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p hns.Policy) bool { return drop != nil && drop(p) })
}
