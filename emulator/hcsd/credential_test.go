package hcsd

import (
	"errors"
	"strings"
	"testing"
)

// TestCredentials: what hcsshim adds it finds, and a container's document names the domain by it until it is removed.
func TestCredentials(t *testing.T) {
	all := Credentials{}
	change := func(operation, details string) error {
		return all.Modify(`{"PropertyType":"ContainerCredentialGuard","Settings":{"Operation":"` + operation +
			`","OperationDetails":` + details + `}}`)
	}
	add :=
		`{"Id":"c1","CredentialSpec":"{\"CmsPlugins\":[\"ActiveDirectory\"],\"DomainJoinConfig\":{\"DnsName\":\"contoso.org\"}}","Transport":"LRPC"}`
	if err := change("AddInstance", add); err != nil {
		t.Fatal(err)
	}
	seen, err := ServiceProperties(`{"PropertyTypes":["ContainerCredentialGuard"]}`, all)
	if err != nil || !strings.HasPrefix(seen, `{"Properties":[{"Instances":[{"Id":"c1","CredentialGuard":{"Cookie":"`) {
		t.Errorf("%s, %v", seen, err)
	}
	named := CredentialGuard{Cookie: all["c1"].Cookie}
	if domain, err := all.Domain(&named); domain != "contoso.org" || err != nil {
		t.Errorf("the domain is %q, %v", domain, err)
	}
	if domain, err := all.Domain(nil); domain != "" || err != nil {
		t.Errorf("the domain of a container without is %q, %v", domain, err)
	}

	for what, err := range map[string]error{
		"twice removed": errors.Join(change("RemoveInstance", `{"Id":"c1"}`),
			change("RemoveInstance", `{"Id":"c1"}`)),
		"no id":           change("AddInstance", `{"Transport":"LRPC"}`),
		"Hyper-V":         change("AddInstance", `{"Id":"c2","Transport":"HvSocket"}`),
		"other operation": change("Update", `{"Id":"c2"}`),
		"other property":  all.Modify(`{"PropertyType":"Memory"}`),
		"unknown field":   change("AddInstance", `{"Id":"c2","Transport":"LRPC","More":1}`),
	} {
		if err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if _, err := all.Domain(&named); !errors.Is(err, ErrElementNotFound) || len(all) != 0 {
		t.Errorf("after the removal: %v, %v", err, all)
	}
}
