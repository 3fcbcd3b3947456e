package lab

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	testimages "porthole.dev/porthole/test/images"
)

// registryURL returns where this machine reaches the cluster's registry, and the same with the login of who may push.
func registryURL(t *testing.T) (plain, withLogin string) {
	t.Helper()
	l, err := layout.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = config.RegistryURL(l); err != nil {
		t.Fatal(err)
	}
	if withLogin, err = testimages.Login(plain, l.RegistryLogin()); err != nil {
		t.Fatal(err)
	}
	return plain, withLogin
}

// TestRegistry: nodes run what a tag names, so that nobody pushes without the login in the state folder: neither other
// users of this machine nor programs of a node. Everybody pulls.
func TestRegistry(t *testing.T) {
	machine, withLogin := registryURL(t)
	inNode := testkit.DialIn(platform.NetnsPath(netnsOf("porthole-win01")))
	onNode := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: inNode}}
	const registryOnNodes = "10.99.0.1:5000" // in the hosts.toml of docs/use/tutorial.md
	node := "http://" + registryOnNodes

	const (
		tag, upload = "/v2/porthole/pause/manifests/1", "/v2/porthole/pause/blobs/uploads/"
		digest      = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
	)
	for _, c := range []struct {
		name, method, url string
		client            *http.Client
		want              int
	}{
		{"a tag, from the machine", http.MethodPut, machine + tag, http.DefaultClient, http.StatusUnauthorized},
		{"a tag, from a node", http.MethodPut, node + tag, onNode, http.StatusUnauthorized},
		{"a blob", http.MethodPost, node + upload + "?digest=" + digest, onNode, http.StatusUnauthorized},
		{"a blob in parts", http.MethodPatch, node + upload + "x", onNode, http.StatusUnauthorized},
		{"the end of a blob", http.MethodPut, node + upload + "x?digest=" + digest, onNode, http.StatusUnauthorized},
		{"another password", http.MethodPost, "http://porthole:x@" + registryOnNodes + upload, onNode,
			http.StatusUnauthorized},
		{"no password", http.MethodPost, "http://porthole@" + registryOnNodes + upload, onNode,
			http.StatusUnauthorized},
		{"to log in, without a password", http.MethodGet, machine + "/v2/", http.DefaultClient,
			http.StatusUnauthorized},
		{"to log in", http.MethodGet, withLogin + "/v2/", http.DefaultClient, http.StatusOK},
		{"to pull", http.MethodGet, node + tag, onNode, http.StatusOK},
		{"to push", http.MethodPost, withLogin + upload + "?digest=" + digest, http.DefaultClient, http.StatusCreated},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, bytes.NewReader([]byte("abc")))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != c.want ||
			(c.want == http.StatusUnauthorized) != (resp.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: the registry answers %s, %v, want %d", c.name, resp.Status, resp.Header, c.want)
		}
	}
}
