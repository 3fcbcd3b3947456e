package runtime

import (
	"errors"
	"fmt"
)

// UserNamespaces returns why a handler of the runtime cannot give a pod a user namespace, in upstream's words.
func (h *Health) UserNamespaces(handler string) error {
	text := "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	if handler != "" {
		text = fmt.Sprintf(
			"can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", handler)
	}
	if h == nil || len(h.Handlers) == 0 { // an old runtime says nothing of its handlers
		return errors.New(text)
	}
	for _, x := range h.Handlers {
		if x.Name == handler && x.UserNamespaces {
			return nil
		}
		if x.Name == handler {
			return errors.New(text)
		}
	}
	return fmt.Errorf("%s: the handler %q is not known", text, handler)
}

// RecursiveReadOnly returns the runtime's handlers that can make mounts below a read-only mount read-only.
func (h *Health) RecursiveReadOnly() (names []string) {
	if h == nil { // not known yet
		return nil
	}
	for _, x := range h.Handlers {
		if x.RecursiveReadOnlyMounts {
			names = append(names, x.Name)
		}
	}
	return names
}
