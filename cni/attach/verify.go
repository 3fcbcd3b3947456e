package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// rules is what is read back of an endpoint, and mended. It is the same client as reader and writer.
type rules interface {
	Endpoint(context.Context, hns.EndpointID) (hns.Endpoint, error)
	AddPolicies(context.Context, hns.EndpointID, []hns.Policy) error
}

// inForce returns nil if HNS says that the endpoint is in order and has all wanted policies. It adds once those that are missing:
// HNS was seen to accept an endpoint and to be without a part of its rules afterwards (docs/windows-facts.md, "Rules of a pod's
// endpoint"). Policies that were not asked for are others' and stay.
func (p *Plugin) inForce(ctx context.Context, wanted hns.Endpoint, id hns.EndpointID) error {
	for repaired := false; ; repaired = true {
		now, err := p.Rules.Endpoint(ctx, id)
		if err != nil {
			return fmt.Errorf("reading back the endpoint: %w", err)
		}
		if broken := now.State.Broken(); broken != "" {
			return fmt.Errorf("endpoint %s is %s: HNS did not put its rules into force", now.Name, broken)
		}

		missing := missingPolicies(wanted.Policies, now.Policies)
		if len(missing) == 0 {
			return nil
		}
		if repaired {
			return fmt.Errorf("endpoint %s is without %s, which HNS accepted", now.Name, policyNames(missing))
		}
		if err := p.Rules.AddPolicies(ctx, id, missing); err != nil && hns.ClassOf(err) != hns.Exists {
			return fmt.Errorf("endpoint %s is without %s: %w", now.Name, policyNames(missing), err)
		}
	}
}

// missingPolicies returns the wanted policies that are not among those that are there. Each one counts once: two equal policies need
// two.
func missingPolicies(wanted, there []hns.Policy) []hns.Policy {
	there = slices.Clone(there)
	var missing []hns.Policy
	for _, w := range wanted {
		i := slices.IndexFunc(there, func(t hns.Policy) bool { return strings.EqualFold(t.Type, w.Type) && covers(t.Settings, w.Settings) })
		if i < 0 {
			missing = append(missing, w)
			continue
		}
		there = slices.Delete(there, i, i+1)
	}
	return missing
}

// covers reports whether a document has everything that another one asks for. HNS may add fields, write names in another case,
// numbers as texts, and leave out what is empty.
func covers(have, want json.RawMessage) bool {
	var h, w any
	if json.Unmarshal(want, &w) != nil || json.Unmarshal(have, &h) != nil {
		return len(have) == 0 && len(want) == 0 || isEmpty(w) && len(have) == 0
	}
	return coversValue(h, w)
}

func coversValue(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		for name, value := range w {
			if !isEmpty(value) && !coversValue(field(h, name), value) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) < len(w) {
			return len(w) == 0
		}
		for _, value := range w {
			if !slices.ContainsFunc(h, func(other any) bool { return coversValue(other, value) }) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(have, want) || strings.EqualFold(fmt.Sprint(have), fmt.Sprint(want))
}

// field returns a field of an object whatever the case of its name.
func field(object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	for other, v := range object {
		if strings.EqualFold(other, name) {
			return v
		}
	}
	return nil
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// policyNames names policies for an error, with their settings.
func policyNames(list []hns.Policy) string {
	var names []string
	for _, p := range list {
		names = append(names, fmt.Sprintf("policy %s %s", p.Type, p.Settings))
	}
	return strings.Join(names, ", ")
}

// portConflict says who has the host port that HNS refused to the wanted endpoint, if another endpoint of the network does. Any other
// error stays as it is.
func portConflict(err error, wanted hns.Endpoint, others []hns.Endpoint) error {
	var e *hns.Error
	if !errors.As(err, &e) || e.Code != hns.CodePortExists {
		return err
	}
	for _, w := range wanted.Policies {
		if w.Type != "PortMapping" {
			continue
		}
		for _, other := range others {
			for _, o := range other.Policies {
				if strings.EqualFold(o.Type, w.Type) && samePort(o.Settings, w.Settings) {
					return fmt.Errorf("host port %s is taken by endpoint %s: %w", portOf(w.Settings), other.Name, err)
				}
			}
		}
	}

	var ports []string
	for _, w := range wanted.Policies {
		if w.Type == "PortMapping" {
			ports = append(ports, portOf(w.Settings))
		}
	}
	return fmt.Errorf("one of the host ports %s is taken by a load balancer, an endpoint of another network or a program of the node: %w", strings.Join(ports, ", "), err)
}

func portIn(settings json.RawMessage) (p portMapping) {
	_ = json.Unmarshal(settings, &p) // what cannot be read is port 0, which equals no wanted one
	return p
}

func samePort(a, b json.RawMessage) bool {
	x, y := portIn(a), portIn(b)
	return x.ExternalPort == y.ExternalPort && x.Protocol == y.Protocol && x.ExternalPort != 0
}

func portOf(settings json.RawMessage) string {
	p := portIn(settings)
	return fmt.Sprintf("%d/%s", p.ExternalPort, hns.Protocol(p.Protocol))
}
