package image

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"a", "a:1", "a/b@sha256:00", "reg:5000/a", ":", "@", "/", "A", " a", "a//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		full, err := Normalize(name)
		if err != nil {
			return
		}
		if full != name && full != name+":latest" {
			t.Errorf("%q became %q", name, full)
		}
		if again, err := Normalize(full); err != nil || again != full {
			t.Errorf("%q became %q and then %q: %v", name, full, again, err)
		}
	})
}

// FuzzCredentials: for any content of a secret, a login is sent to its own registry only, and an image finds the login
// of its registry.
func FuzzCredentials(f *testing.F) {
	f.Add("reg.test/app", "https://reg.test/v1/", "dTpw", []byte(`{"auths":{"reg.test":{"auth":"dTpw"},"":null}}`))
	f.Add("busybox", "index.docker.io", "dTpw=", []byte(`{"auths":null}`))
	f.Add("[fd00::5]:5000/app", "*.test", "====", []byte(`[]`))
	f.Add("a.b:5000/c/d@sha256:00", "[a-z].?:5000/c", "\x00", []byte(`{"AUTHS":{"[":7}}`))

	f.Fuzz(func(t *testing.T, name, registry, auth string, raw []byte) {
		credentials(name, []v1.Secret{{Data: map[string][]byte{v1.DockerConfigJsonKey: raw}},
			{Data: map[string][]byte{v1.DockerConfigKey: raw}}})
		ref, err := reference.ParseNormalizedNamed(name)
		if err != nil {
			return
		}
		give := func(registry string) int {
			data, err := json.Marshal(
				map[string]any{"auths": map[string]any{registry: map[string]string{"auth": auth}}})
			if err != nil {
				t.Fatal(err)
			}
			return len(credentials(name, []v1.Secret{{Data: map[string][]byte{v1.DockerConfigJsonKey: data}}}))
		}
		host := reference.Domain(ref)
		for _, own := range []string{host, "https://" + host + "/v1/", host + "/" + reference.Path(ref)} {
			if give(own) != 1 {
				t.Fatalf("%q does not find the login for %q", name, own)
			}
		}
		if !strings.ContainsAny(registry, `*?[\`) && give(registry) > 0 {
			plain := strings.TrimPrefix(strings.TrimPrefix(registry, "https://"), "http://")
			if regHost, _, _ := strings.Cut(plain, "/"); regHost != host &&
				(regHost != defaultKey || host != defaultRegistry) {
				t.Fatalf("%q gets the login for %q", name, registry)
			}
		}
	})
}
