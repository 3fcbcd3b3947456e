package hcn

import (
	"context"

	"porthole.dev/porthole/hns"
)

// Rules is a Client with the calls about the policies of endpoints that exist.
type Rules struct{ *Client }

// AddPolicies gives an endpoint more policies; those that it has stay.
func (r Rules) AddPolicies(ctx context.Context, id hns.EndpointID, policies []hns.Policy) error {
	_, err := call(ctx, r.Client, "add policies", "to endpoint "+string(id), func() (struct{}, error) {
		return struct{}{}, endpoints.modified(string(id), policiesDoc("Add", policies), nil)
	})
	return err
}

// policiesDoc is the request to change the policies of an endpoint.
func policiesDoc(request string, policies []hns.Policy) modificationDoc {
	var list struct{ Policies []policyDoc }
	for _, p := range policies {
		list.Policies = append(list.Policies, policyDoc{Type: p.Type, Settings: p.Settings})
	}
	return modificationDoc{ResourceType: "Policy", RequestType: request, Settings: list}
}
