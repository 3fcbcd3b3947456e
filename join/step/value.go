package step

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// encode returns a value as JSON with sorted keys, so that equal values are equal bytes.
func encode(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	if text, err = json.Marshal(plain); err != nil { // maps come out sorted
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	return text, nil
}

// fields returns each value below a JSON value that is no object, by its path such as "spec.command".
func fields(text json.RawMessage) map[string]string {
	var plain any
	if json.Unmarshal(text, &plain) != nil || plain == nil {
		return nil
	}
	out := map[string]string{}
	flatten("", plain, out)
	return out
}

func flatten(path string, value any, out map[string]string) {
	object, ok := value.(map[string]any)
	if !ok {
		text, _ := json.Marshal(value) // it was JSON before
		if s, ok := value.(string); ok {
			text = []byte(s)
		}
		if len(text) == 0 {
			text = []byte(`""`)
		}
		out[path] = string(text)
		return
	}
	for key, below := range object {
		name := key
		if path != "" {
			name = path + "." + key
		}
		flatten(name, below, out)
	}
}

func sortedKeys(a, b map[string]string) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
