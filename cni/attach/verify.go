package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"porthole.dev/porthole/hns"
)

// rules reads an endpoint after it was made, and adds policies to it. It is the same client as reader and writer.
type rules interface {
	Endpoint(context.Context, hns.EndpointID) (hns.Endpoint, error)
	AddPolicies(context.Context, hns.EndpointID, []hns.Policy) error
}

// inForce returns nil if HNS lists the endpoint with all wanted policies, and does not report it as degraded or
// destroyed. Missing policies are added once, because HNS sometimes accepts an endpoint and does not keep all of its
// policies (docs/windows-facts.md, "Rules of a pod's endpoint"). Policies that were not asked for belong to other
// programs. They stay.
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

// missingPolicies returns the wanted policies that are not among those that are there. One that is there stands for
// one wanted policy only.
func missingPolicies(wanted, there []hns.Policy) []hns.Policy {
	there = slices.Clone(there)
	var missing []hns.Policy
	for _, w := range wanted {
		i := slices.IndexFunc(there,
			func(t hns.Policy) bool { return strings.EqualFold(t.Type, w.Type) && covers(t.Settings, w.Settings) })
		if i < 0 {
			missing = append(missing, w)
			continue
		}
		there = slices.Delete(there, i, i+1)
	}
	return missing
}

// covers reports whether a document has everything that another one asks for. HNS may add fields, write names in
// another case, numbers as texts, and leave out what is empty.
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
	return strings.EqualFold(text(have), text(want))
}

// text returns a value that is no object and no array as a text. Numbers have no exponent, which fmt writes from
// 1,000,000 on.
func text(v any) string {
	if n, ok := v.(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(v)
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

// portConflict adds to HNS's error about a host port in use the name of the endpoint of this network that has the
// port, if one does. Other errors are returned as they are.
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
	return fmt.Errorf(
		"one of the host ports %s is taken by a load balancer, an endpoint of another network or a program of the node: %w", strings.Join(ports, ", "), err)
}

// portIn reads the settings of a PortMapping policy. Of settings that cannot be read, all fields are zero.
func portIn(settings json.RawMessage) (p portMapping) {
	_ = json.Unmarshal(settings, &p) // port 0 is no wanted one
	return p
}

// samePort reports whether two PortMapping policies are for one port of the host.
func samePort(a, b json.RawMessage) bool {
	x, y := portIn(a), portIn(b)
	return x.ExternalPort == y.ExternalPort && x.Protocol == y.Protocol && x.ExternalPort != 0
}

// portOf returns the host port of a PortMapping policy for an error, such as "53/udp".
func portOf(settings json.RawMessage) string {
	p := portIn(settings)
	return fmt.Sprintf("%d/%s", p.ExternalPort, hns.Protocol(p.Protocol))
}
