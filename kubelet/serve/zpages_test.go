package serve

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"porthole.dev/porthole/kubelet/pod"
)

func ask(t *testing.T, method, url, accept string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// TestZPages: clients get a text, or an object if they accept its group, version and kind, as from upstream's
// components.
func TestZPages(t *testing.T) {
	srv := startServer(t, Options{Pods: func() []pod.View { return nil }, Auth: AuthOptions{Anonymous: true},
		Version: "v1.36.3",
		Flags:   map[string]string{"v": "2", "node-ip": "10.0.0.1"}})

	for _, c := range []struct {
		path, accept, media, body string
		code                      int
	}{
		{"/statusz", "", "text/plain; charset=utf-8",
			`^\nkubelet statusz\nWarning: This endpoint is not meant to be machine parseable.*\n\nStarted: .* 20\d\d\nUp: 0 hr \d\d min \d\d sec\nGo version: go1\.\S+\nBinary version: 1\.36\.3\nEmulation version: 1\.36\nPaths: .*/checkpoint.* /pods .*\n$`, 200},
		{"/flagz", "text/plain", "text/plain; charset=utf-8",
			`^\nkubelet flagz\nWarning: .*\nnode-ip=10\.0\.0\.1\nv=2\n$`, 200},
		{"/flagz", "application/json, */*", "text/plain; charset=utf-8", `\nv=2\n$`, 200},
		{"/flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "application/json",
			`^{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kubelet"},"flags":{"node-ip":"10.0.0.1","v":"2"}}$`, 200},
		{"/statusz", "text/plain;q=0.5, application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz", "application/yaml",
			`(?m)^apiVersion: config.k8s.io/v1alpha1$(.|\n)*^binaryVersion: 1.36.3$`, 200},
		{"/statusz", "application/json", "", `g=config.k8s.io`, 406},
		{"/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "", `as=Statusz`, 406},
		{"/flagz", "text/plain;q=0", "", ``, 406},
	} {
		code, header, body := ask(t, http.MethodGet, srv.URL+c.path, c.accept)
		if code != c.code || c.media != "" && header.Get("Content-Type") != c.media ||
			!regexp.MustCompile(c.body).MatchString(body) {
			t.Errorf("%s as %q: %d %s %q", c.path, c.accept, code, header.Get("Content-Type"), body)
		}
		if old := strings.Contains(c.accept, "v1alpha1"); old != (header.Get("Warning") != "") {
			t.Errorf("%s as %q: warning %q", c.path, c.accept, header.Get("Warning"))
		}
	}
}
