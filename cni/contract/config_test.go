package contract

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func policyOf(value string) string {
	return `{"name":"n","policies":[{"name":"EndpointPolicy","value":` + value + `}]}`
}

func TestNormalise(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"settings that are null, beside others": {`{"Type":"ACL","Settings":null,"Action":"Block"}`, `ACL {"Action":"Block"}`},
		"no settings":                           {`{"Type":"ACL"}`, `ACL {}`},
		"one setting in two spellings":          {`{"Type":"OutBoundNAT","Settings":{"exceptions":["c"],"ExceptionList":["b"],"Exceptions":["a"]}}`, `OutBoundNAT {"Exceptions":["a"]}`},
		"two settings":                          {`{"Type":"ACL","settings":{"B":1},"Settings":{"A":1}}`, `ACL {"A":1,"B":1}`},
	} {
		for range 20 { // maps have no order
			got, err := Parse([]byte(policyOf(c.value)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text := got.Policies[0].Type + " " + string(got.Policies[0].Settings); text != c.want {
				t.Fatalf("%s: %s, want %s", name, text, c.want)
			}
		}
	}
}

// FuzzParse checks that any input gives an error or a configuration whose policies HNS can read, and the same one each time.
func FuzzParse(f *testing.F) {
	for _, value := range []string{`{"Type":"OutBoundNAT","ExceptionList":["10.0.0.0/8"]}`, `{"type":"SDNROUTE","settings":{"destinationPrefix":"10.96.0.0/16"}}`,
		`{"Type":"ACL","Settings":null,"x":1}`, `null`, `{"type":7}`} {
		f.Add([]byte(policyOf(value)))
	}
	f.Add([]byte("{\n\n,"))
	f.Add([]byte(`{"name":"n","apiVersion":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		again, err2 := Parse(data)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, and then %v", err, err2)
		}
		if err != nil {
			return
		}

		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("read twice:\n%s", diff)
		}
		if c.Name == "" || c.APIVersion < 0 || c.APIVersion > 2 {
			t.Fatalf("name %q, apiVersion %d", c.Name, c.APIVersion)
		}
		if len(c.Policies) > len(c.RawPolicies)+len(c.AdditionalArgs) {
			t.Fatalf("%d policies and %d warnings", len(c.Policies), len(c.Warnings))
		}

		for _, p := range c.Policies {
			var settings map[string]json.RawMessage
			if json.Unmarshal(p.Settings, &settings) != nil || settings == nil || !bytes.HasPrefix(p.Settings, []byte("{")) {
				t.Fatalf("policy %s has the settings %s", p.Type, p.Settings)
			}
			for key := range settings {
				if k := strings.ToLower(key); p.Type == "OutBoundNAT" && settingNames[k] != "" && settingNames[k] != key {
					t.Fatalf("the setting %s of %s kept its old name", key, p.Type)
				}
			}
		}
	})
}
