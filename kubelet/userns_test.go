package kubelet

import (
	"testing"

	"porthole.dev/porthole/kubelet/runtime"
)

// TestCheckUserNamespaces: which handlers can give a pod a user namespace, in upstream's words.
func TestCheckUserNamespaces(t *testing.T) {
	h := &runtime.Health{Handlers: []runtime.Handler{{Name: "", UserNamespaces: true}, {Name: "vm"}}}
	for _, c := range []struct {
		health        *runtime.Health
		handler, want string
	}{
		{h, "", ""},
		{h, "vm", "can't set `spec.hostUsers: false`, RuntimeClass handler \"vm\" does not support user namespaces"},
		{h, "other",
			"can't set `spec.hostUsers: false`, RuntimeClass handler \"other\" does not support user namespaces: the handler \"other\" is not known"},
		{nil, "", "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		{&runtime.Health{}, "", "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
	} {
		text := ""
		if err := checkUserNamespaces(c.health, c.handler); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("handler %q: %s, want %s", c.handler, text, c.want)
		}
	}
}
