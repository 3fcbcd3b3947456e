package hcsd

import (
	"encoding/json"
	"strings"
)

// Modify changes the limits of a system as a document says, and returns them. What can be changed is what runhcs
// changes (cmd/containerd-shim-runhcs-v1/task_hcs.go): processor and memory.
func (s *System) Modify(document string) (Container, error) {
	var m Modification
	if err := Decode(document, &m); err != nil {
		return Container{}, err
	}
	if m.RequestType != "Update" && m.RequestType != "" {
		return Container{}, ErrNotSupported.WithText("RequestType %q of %s: an emulated host can only update limits",
			m.RequestType, m.ResourcePath)
	}

	// The change is made to a copy, so that values which are refused leave the system as it is.
	next := *s.Doc.Container
	switch strings.TrimSuffix(m.ResourcePath, "/") {
	case "Container/Processor":
		p := Processor{}
		if err := Decode(string(m.Settings), &p); err != nil {
			return next, err
		}
		next.Processor = &p
	case "Container/Memory/SizeInMB":
		var size uint64
		if err := json.Unmarshal(m.Settings, &size); err != nil {
			return next, ErrInvalidJSON.WithText("Settings: %v", err)
		}
		next.Memory = &Memory{SizeInMB: size}
	default:
		return next, ErrNotSupported.WithText(
			"ResourcePath %q: an emulated host can change Container/Processor and Container/Memory/SizeInMB",
			m.ResourcePath)
	}
	if err := next.checkValues(); err != nil {
		return next, err
	}
	s.Doc.Container = &next
	return next, nil
}
