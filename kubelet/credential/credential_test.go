package credential

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// behaviour is the variable that makes this test program a plugin.
const behaviour = "PORTHOLE_TEST_CREDENTIALS"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		os.Exit(plugin(how))
	}
	os.Exit(m.Run())
}

// plugin answers as its variable says, and writes the image into the file of its argument.
func plugin(how string) int {
	in, _ := io.ReadAll(os.Stdin)
	var q struct {
		Kind, APIVersion, Image, ServiceAccountToken string
		ServiceAccountAnnotations                    map[string]string
	}
	if err := json.Unmarshal(in, &q); err != nil || q.Kind != "CredentialProviderRequest" {
		return 3
	}
	f, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 4
	}
	line := q.Image
	if q.ServiceAccountToken != "" {
		line += fmt.Sprintf(" %s %v", q.ServiceAccountToken, q.ServiceAccountAnnotations)
	}
	fmt.Fprintln(f, line)
	f.Close()

	switch how {
	case "fails":
		fmt.Fprintln(os.Stderr, "no such role")
		return 1
	case "talks":
		fmt.Println("hello")
		return 0
	case "old":
		q.APIVersion = "credentialprovider.kubelet.k8s.io/v0"
	}

	kind, life, password := "Image", "", "p-"+q.Image
	if how == "echo" {
		password = q.ServiceAccountToken
	}
	if kinds := strings.Split(how, "/"); len(kinds) == 2 {
		kind, life = kinds[0], kinds[1]
	}
	fmt.Printf(
		`{"kind":"CredentialProviderResponse","apiVersion":%q,"cacheKeyType":%q,"auth":{"registry.example.com":{"username":"u","password":%q}}`, q.APIVersion, kind, password)
	if life != "" {
		fmt.Printf(`,"cacheDuration":%q`, life)
	}
	fmt.Println("}")
	return 0
}

// providers makes one provider that behaves in a way, and the file in which it writes what it was asked.
func providers(t *testing.T, how, life string) (*Providers, string) {
	t.Helper()
	return providersWith(t, how, life, "")
}

// providersWith is the same with more lines of the provider's configuration.
func providersWith(t *testing.T, how, life, more string) (*Providers, string) {
	t.Helper()
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	text := fmt.Sprintf(
		"kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n- name: %s\n  matchImages: [registry.example.com]\n  defaultCacheDuration: %s\n"+
			"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [%q]\n  env: [{name: %s, value: %q}]\n%s",
		filepath.Base(os.Args[0]), life, asked, behaviour, how, more)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(file, filepath.Dir(os.Args[0]))
	if err != nil {
		t.Fatal(err)
	}
	p.Matches = func(pattern, image string) bool { return strings.HasPrefix(image, pattern) }
	p.RegistryOf = func(image string) string { return strings.SplitN(image, "/", 2)[0] }
	return p, asked
}

// TestPlugin runs a plugin: what it says is kept for what it says it is for, and as long as it says.
func TestPlugin(t *testing.T) {
	for name, c := range map[string]struct{ how, life, asked string }{
		"for each image":                    {"Image/1h", "0s", "a b"},
		"for a registry":                    {"Registry/1h", "0s", "a"},
		"for all":                           {"Global/1h", "0s", "a"},
		"as long as the configuration says": {"Image", "1h", "a b"},
		"not at all":                        {"Image", "0s", "a a b"},
		"the plugin goes before":            {"Image/0s", "1h", "a a b"},
		"failures are not kept":             {"fails", "1h", "a a b"},
		"nor nonsense":                      {"talks", "1h", "a a b"},
		"nor answers of another version":    {"old", "1h", "a a b"},
	} {

		p, file := providers(t, c.how, c.life)
		for _, image := range []string{"a", "a", "b", "-elsewhere"} {
			full := "registry.example.com/" + image
			if image == "-elsewhere" {
				full = "elsewhere.example.com/x"
			}
			secrets := p.Logins(t.Context(), full, Pod{Namespace: "n", Account: "default"})
			good := len(secrets) == 1 && secrets[0].Account == nil &&
				strings.Contains(string(secrets[0].Secret.Data[v1.DockerConfigJsonKey]),
					`"registry.example.com":{"username":"u","password":"p-`)
			if want := strings.Contains(c.how, "Image") || strings.Contains(c.how, "Registry") ||
				strings.Contains(c.how, "Global"); image != "-elsewhere" && good != want ||
				image == "-elsewhere" && secrets != nil {
				t.Errorf("%s, %s: %v", name, image, secrets)
			}
		}
		data, err := os.ReadFile(file)
		if got := strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(string(data), "registry.example.com/", ""),
			"\n", " ")); err != nil || got != c.asked {
			t.Errorf("%s: asked for %q, want %q, %v", name, got, c.asked, err)
		}
	}
}

// TestExpired: an answer of before is not used.
func TestExpired(t *testing.T) {
	p, _ := providers(t, "Image", "1h")
	p.Logins(t.Context(), "registry.example.com/a", Pod{})
	one := p.list[0]
	if _, ok := p.known(one, question{image: "registry.example.com/a"}, time.Now().Add(59*time.Minute)); !ok {
		t.Error("an answer is forgotten before its time")
	}
	if _, ok := p.known(one, question{image: "registry.example.com/a"}, time.Now().Add(61*time.Minute)); ok {
		t.Error("an answer is used after its time")
	}
}

func TestMistakes(t *testing.T) {
	const head = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n"
	good :=
		"- {name: p, matchImages: [a], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
	for text, want := range map[string]string{
		head + good: "",
		"kind: X\napiVersion: kubelet.config.k8s.io/v1\n": "X of kubelet.config.k8s.io/v1 is not a CredentialProviderConfig",
		head: "at least 1 item in plugins is required",
		head + strings.Replace(good, "name: p", `name: "a/b"`, 1): "name cannot contain path separators",
		head + strings.Replace(good, "[a]", "[]", 1):              "at least 1 item in matchImages is required",
		head + strings.Replace(good, "1m", "-1m",
			1): "defaultCacheDuration must be greater than or equal to 0",
		head + strings.Replace(good, ".io/v1}", ".io/v9}",
			1): `apiVersion "credentialprovider.kubelet.k8s.io/v9" is not one of`,
		head + strings.Replace(good, "name: p", "nam: p", 1): "unknown field",
		head + strings.Replace(good, "}",
			", tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Token, requireServiceAccount: true}}",
			1): "",
		head + strings.Replace(good, "}", ", tokenAttributes: {}}",
			1): "serviceAccountTokenAudience is required",
		head + strings.Replace(good, "}", ", tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Never}}", 1): `requireServiceAccount is required
provider "p": tokenAttributes: cacheType "Never" is not one of [ServiceAccount Token]`,
		head + strings.Replace(good, "o/v1}", "o/v1beta1, tokenAttributes: {}}",
			1): "tokenAttributes is only supported for credentialprovider.kubelet.k8s.io/v1 API version",
		head + strings.Replace(good, "}", ", tokenAttributes: {requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a, a], optionalServiceAccountAnnotationKeys: [a, ' ']}}", 1): `requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set
provider "p": tokenAttributes: cacheType is required to be set when tokenAttributes is specified. Supported values are: [ServiceAccount Token]
provider "p": tokenAttributes: annotation key "a" is there twice
provider "p": tokenAttributes: annotation key "a": annotation keys cannot be both required and optional
provider "p": tokenAttributes: annotation key " "`,
	} {
		_, err := parse([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte(head+good+good), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, dir); err == nil || !strings.Contains(err.Error(), "did not exist") ||
		!strings.Contains(err.Error(), "provider p is there twice") {
		t.Errorf("a folder: %v", err)
	}
}
