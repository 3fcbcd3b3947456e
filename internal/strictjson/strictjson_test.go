package strictjson

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestUnmarshal(t *testing.T) {
	for _, c := range []struct {
		text     string
		mistakes []string
		name     string // of the pod that was read
		fails    bool
	}{
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, nil, "a", false},
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","size":1},"Spec":{}}`,
			[]string{`unknown field "metadata.size"`, `unknown field "Spec"`}, "a", false},
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","name":"b"}}`,
			[]string{`duplicate field "metadata.name"`}, "b", false},
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":1}}`, nil, "", true},
		{`{`, nil, "", true},
	} {
		var p v1.Pod
		mistakes, err := Unmarshal([]byte(c.text), &p)
		if !slices.Equal(mistakes, c.mistakes) || p.Name != c.name || (err != nil) != c.fails {
			t.Errorf("%s:\nname %q, mistakes %q, error %v", c.text, p.Name, mistakes, err)
		}
	}
}
