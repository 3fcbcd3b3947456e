package runtime

import "testing"

// TestUserNamespaces: which handlers can give a pod a user namespace, in upstream's words.
func TestUserNamespaces(t *testing.T) {
	h := &Health{Handlers: []Handler{{Name: "", UserNamespaces: true}, {Name: "vm"}}}
	for _, c := range []struct {
		health        *Health
		handler, want string
	}{
		{h, "", ""},
		{h, "vm", "can't set `spec.hostUsers: false`, RuntimeClass handler \"vm\" does not support user namespaces"},
		{h, "other",
			"can't set `spec.hostUsers: false`, RuntimeClass handler \"other\" does not support user namespaces: the handler \"other\" is not known"},
		{nil, "", "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		{&Health{}, "", "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
	} {
		text := ""
		if err := c.health.UserNamespaces(c.handler); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("handler %q: %s, want %s", c.handler, text, c.want)
		}
	}
}
