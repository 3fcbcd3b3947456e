package cnishim

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzNetwork: whatever a configuration, a runtime and an earlier plugin say, there is an error or an object for each plugin,
// with no more of the runtime's offers than it declared; a plugin's name leads out of no folder.
func FuzzNetwork(f *testing.F) {
	f.Add([]byte(`{"name":"n","plugins":[{"type":"win-bridge.exe","capabilities":{"dns":true}},null]}`), []byte(`{"runtimeConfig":{"dns":{},"portMappings":[]}}`), []byte(`{}`))
	f.Add([]byte(`{"type":"a","capabilities":null,"runtimeConfig":7}`), []byte(`{"runtimeConfig":null}`), []byte(`not JSON`))
	f.Add([]byte(`{"cniVersion":1,"plugins":[]}`), []byte(`[]`), []byte{})

	f.Fuzz(func(t *testing.T, file, stdin, previous []byte) {
		n, err := parseNetwork(file)
		if err != nil {
			return
		}
		outer := Call{Stdin: stdin}.outer()
		for _, p := range n.plugins {
			if program := p.kind + ".exe"; filepath.Base(program) != program || strings.ContainsAny(p.kind, `\:`) {
				t.Fatalf("the plugin is called %q", p.kind)
			}
			text, err := n.stdin(p, outer, previous)
			if err != nil {
				continue
			}
			var conf, given map[string]json.RawMessage
			if err := json.Unmarshal(text, &conf); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if p.conf["runtimeConfig"] != nil { // the file's own, which the runtime's replaces or leaves
				continue
			}
			var wants map[string]bool
			_ = json.Unmarshal(p.conf["capabilities"], &wants)
			_ = json.Unmarshal(conf["runtimeConfig"], &given)
			for name := range given {
				if !wants[name] {
					t.Fatalf("%s is given %s", p.kind, name)
				}
			}
		}
	})
}
