package hcsd

import (
	"encoding/json"
	"maps"
	"slices"
)

// Credentials are the instances of Container Credential Guard, by the id of the container that each is for. A
// container with a group managed service account has one: hcsshim adds it, reads it back, and names it in the
// container's document (internal/credentials).
type Credentials map[string]CredentialGuard

// credentialGuard is the property of the service that has the instances.
const credentialGuard = "ContainerCredentialGuard"

// The documents of the property.
type (
	credentialInstance struct {
		ID              string `json:"Id"`
		CredentialGuard CredentialGuard
	}
	credentialOperation struct {
		Operation        string `json:",omitempty"`
		OperationDetails struct {
			ID             string `json:"Id,omitempty"`
			CredentialSpec string `json:",omitempty"`
			Transport      string `json:",omitempty"`
		}
	}
)

// Modify is HcsModifyServiceSettings: it adds an instance, or removes one. To remove what is not there is an error.
func (all Credentials) Modify(document string) error {
	var m struct {
		PropertyType string          `json:",omitempty"`
		Settings     json.RawMessage `json:",omitempty"`
	}
	if err := Decode(document, &m); err != nil {
		return err
	}
	if m.PropertyType != credentialGuard {
		return ErrNotSupported.WithText("property %q of the service cannot be changed", m.PropertyType)
	}
	var o credentialOperation
	if err := Decode(string(m.Settings), &o); err != nil {
		return err
	}

	id := o.OperationDetails.ID
	_, known := all[id]
	switch {
	case id == "" || len(id) > maxID:
		return ErrInvalidArgument.WithText("%s: the id %q is not valid", o.Operation, id)
	case o.Operation == "RemoveInstance" && !known:
		return ErrElementNotFound
	case o.Operation == "RemoveInstance":
		delete(all, id)
	case o.Operation == "AddInstance" && o.OperationDetails.Transport != "LRPC":
		return ErrNotSupported.WithText("Transport %q: containers without Hyper-V have LRPC",
			o.OperationDetails.Transport)
	case o.Operation == "AddInstance":
		// The cookie and the endpoint follow from the id alone.
		all[id] = CredentialGuard{Cookie: NameToGUID("credential guard " + id),
			RpcEndpoint: NameToGUID("endpoint " + id),
			Transport:   o.OperationDetails.Transport, CredentialSpec: o.OperationDetails.CredentialSpec}
	default:
		return ErrNotSupported.WithText("operation %q on %s", o.Operation, credentialGuard)
	}
	return nil
}

// instances lists all by id.
func (all Credentials) instances() any {
	list := []credentialInstance{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, credentialInstance{id, all[id]})
	}
	return map[string]any{"Instances": list}
}

// Domain is the DNS name of the domain that a container is joined to by the instance that its document names. It is
// empty if the document names none, or the credential spec no domain. The layout of the spec is that of Microsoft's
// CredentialSpec module.
func (all Credentials) Domain(g *CredentialGuard) (string, error) {
	if g == nil {
		return "", nil
	}
	for _, have := range all {
		if have.Cookie != g.Cookie {
			continue
		}
		var spec struct {
			DomainJoinConfig struct{ DnsName string }
		}
		if err := json.Unmarshal([]byte(have.CredentialSpec), &spec); err != nil {
			return "", ErrInvalidJSON.WithText("CredentialSpec: %v", err)
		}
		return spec.DomainJoinConfig.DnsName, nil
	}
	return "", ErrElementNotFound.WithText("%s: no instance has the cookie %q", credentialGuard, g.Cookie)
}
