package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestImageVolume: a folder on drive D: that an image says is a volume is there for the container, empty, and another one
// for each container.
func TestImageVolume(t *testing.T) {
	pushWithVolume(t, "ltsc2022", "volume", `D:\data`)
	for _, name := range []string{"image-volume-a", "image-volume-b"} {
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: win01
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: "porthole/testapp:volume", args: [serve, --http, ':8080']}]
`, name))
		waitPod(t, name, podWait, isReady)
		if out := kubectl(t, "exec", name, "--", "testapp", "ls", `D:\data`); strings.TrimSpace(out) != "" {
			t.Errorf(`%s: D:\data holds %q at first`, name, out)
		}
		kubectl(t, "exec", name, "--", "cmd", "/c", `copy C:\testapp.exe D:\data\kept.exe`)
		if out := kubectl(t, "exec", name, "--", "testapp", "ls", `D:\data`); !strings.Contains(out, "kept.exe") {
			t.Errorf(`%s: D:\data holds %q`, name, out)
		}
	}
}

// pushWithVolume gives the registry the test image of one tag under another one, with a folder that is a volume.
func pushWithVolume(t *testing.T, from, to, folder string) {
	t.Helper()
	var index, manifest, config map[string]any
	registry(t, http.MethodGet, "manifests/"+from, "", nil, &index)
	first := index["manifests"].([]any)[0].(map[string]any)
	registry(t, http.MethodGet, "manifests/"+first["digest"].(string), "", nil, &manifest)
	described := manifest["config"].(map[string]any)
	registry(t, http.MethodGet, "blobs/"+described["digest"].(string), "", nil, &config)
	config["config"].(map[string]any)["Volumes"] = map[string]any{folder: map[string]any{}}

	content, digest := encoded(t, config)
	registry(t, http.MethodPost, "blobs/uploads/?digest="+digest, "application/octet-stream", content, nil)
	described["digest"], described["size"] = digest, len(content)
	content, digest = encoded(t, manifest)
	registry(t, http.MethodPut, "manifests/"+digest, "application/vnd.oci.image.manifest.v1+json", content, nil)
	first["digest"], first["size"] = digest, len(content)
	content, _ = encoded(t, index)
	registry(t, http.MethodPut, "manifests/"+to, "application/vnd.oci.image.index.v1+json", content, nil)
}

// encoded returns a document of an image and its digest.
func encoded(t *testing.T, document any) (content []byte, digest string) {
	t.Helper()
	content, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return content, fmt.Sprintf("sha256:%x", sha256.Sum256(content))
}

// registry asks the cluster's registry for something of the test image. An answer that is to be read is JSON.
func registry(t *testing.T, method, what, kind string, content []byte, answer any) {
	t.Helper()
	request, err := http.NewRequest(method, "http://127.0.0.1:5000/v2/porthole/testapp/"+what, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s, %v: %s", method, what, response.Status, err, body)
	}
	if answer != nil && json.Unmarshal(body, answer) != nil {
		t.Fatalf("%s %s: %s", method, what, body)
	}
}
