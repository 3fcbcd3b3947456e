package lab

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// secretive has secrets where people put them. None of them may be in a report.
const secretive = `
apiVersion: v1
kind: Secret
metadata: {name: report-secret}
stringData: {password: correct-horse-battery}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: report-config}
data: {dsn: "postgres://app:staple-horse-7@db/shop"}
---
apiVersion: v1
kind: Pod
metadata: {name: report-pod, annotations: {note: "annotated-horse-3"}}
spec:
  nodeSelector: {kubernetes.io/os: linux}
  containers: [{name: app, image: "porthole/testapp:1", args: ["--key=argument-horse-5"], env: [{name: API_KEY, value: environment-horse-9}]}]
`

// TestReport: the archive of a live cluster has its nodes, what their programs say, what is wrong and the logs, is
// what was listed, and has no secret: none of the pods and objects, no key of the cluster's certificates and no token.
func TestReport(t *testing.T) {
	apply(t, secretive)
	// its program does not know its argument: that is what is wrong
	waitPod(t, "report-pod", podWait, func(pod *v1.Pod) error {
		if list := pod.Status.ContainerStatuses; len(list) > 0 && list[0].RestartCount > 1 &&
			list[0].State.Waiting != nil {
			return nil // for 20 s: that suffices for the report
		}
		return errors.New("does not wait for its third start")
	})

	file := filepath.Join(t.TempDir(), "report.tar.gz")
	out, err := command(2*time.Minute, porthole, "report", "--dir", dir, "--yes", "--file", file)
	if err != nil {
		t.Fatal(err)
	}
	files := unpacked(t, file)
	for _, want := range []string{"cluster.json", "why.txt", "events.txt", "nodes/win01/routes-status",
		"nodes/win01/proxy-status", "nodes/win02/proxy-metrics", "logs/hosts/win01/kubelet.log",
		"logs/logs/controlplane.log"} {
		if len(files[want]) == 0 || !strings.Contains(out, want) {
			t.Errorf("%s is not in the archive, or was not listed:\n%s", want, out)
		}
	}
	if !bytes.Contains(files["cluster.json"], []byte("pod/default/report-pod")) {
		t.Error("the pod is not in the report")
	}

	secrets := map[string]string{"a Secret": "correct-horse-battery", "a ConfigMap": "staple-horse-7",
		"an annotation": "annotated-horse-3", "an argument": "argument-horse-5",
		"an environment": "environment-horse-9"}
	config, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`client-key-data"?: *"?([A-Za-z0-9+/=]{40,})`).FindSubmatch(config)
	if key == nil {
		t.Fatal("the kubeconfig has no key to look for")
	}
	secrets["the administrator's key"] = string(key[1][:40])
	shapes := map[string]*regexp.Regexp{"a private key": regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`),
		"a bootstrap token":            regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
		"a token of a service account": regexp.MustCompile(`\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}`),
		"a password in an address":     regexp.MustCompile(`://[^/\s:]+:[^@/\s(]+@`)}
	for name, data := range files {
		for what, secret := range secrets {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s has %s", name, what)
			}
		}
		for what, shape := range shapes {
			if found := shape.Find(data); found != nil {
				t.Errorf("%s has what looks like %s: %.12s…", name, what, found)
			}
		}
	}
}

// unpacked returns the files of a report by their names in it.
func unpacked(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}

	files := map[string][]byte{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "porthole-report/")] = data
	}
}
