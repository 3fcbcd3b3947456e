package serve

import (
	"encoding/json"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/hnsd/fault"
)

// Fault is a rule that makes calls go wrong.
type Fault = fault.Rule

// Actions of faults with what they do.
var Actions = fault.Actions

// stripped returns a JSON object without the named fields, whose case does not matter. It returns any other text, such
// as an error of HNS, unchanged.
func stripped(text string, fields []string) string {
	var d map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &d) != nil {
		return text
	}
	for name := range d {
		if slices.ContainsFunc(fields, func(f string) bool { return strings.EqualFold(f, name) }) {
			delete(d, name)
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return text
	}
	return string(data)
}

// withoutPolicies leaves policies of some types out of a document that makes or changes an object, and returns them
// too.
func withoutPolicies(text string, types []string) (without string, left []any) {
	var d map[string]any
	if json.Unmarshal([]byte(text), &d) != nil {
		return text, nil
	}
	forget := func(object map[string]any) {
		for name, value := range object {
			if list, ok := value.([]any); ok && strings.EqualFold(name, "Policies") {
				object[name] = slices.DeleteFunc(list, func(p any) bool {
					is := isPolicyOf(p, types)
					if is {
						left = append(left, p)
					}
					return is
				})
			}
		}
	}
	// Policies are at the top of a new object's document, and within Settings of a request that
	// changes one.
	forget(d)
	for _, value := range d {
		if settings, ok := value.(map[string]any); ok {
			forget(settings)
		}
	}

	data, err := json.Marshal(d)
	if err != nil {
		return text, nil
	}
	return string(data), left
}

// isPolicyOf compares the names of fields and types without regard to case, as HNS does.
func isPolicyOf(policy any, types []string) bool {
	fields, _ := policy.(map[string]any)
	for name, value := range fields {
		kind, _ := value.(string)
		if strings.EqualFold(name, "Type") &&
			slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, kind) }) {
			return true
		}
	}
	return false
}

// degraded sets the state of an endpoint's properties to 5, Degraded.
func degraded(text string) string {
	var d map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &d) != nil {
		return text
	}
	d["State"] = json.RawMessage("5")
	data, err := json.Marshal(d)
	if err != nil {
		return text
	}
	return string(data)
}
