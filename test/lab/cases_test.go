package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestCopy copies a file into a Windows pod and back with kubectl cp, which runs tar in the container. Then the
// container copies it to a volume on drive D:.
func TestCopy(t *testing.T) {
	windowsPod(t, "copy", "[serve, --http, ':8080']", "  volumes: [{name: data, emptyDir: {}}]",
		`    volumeMounts: [{name: data, mountPath: 'D:\data'}]`)
	waitPod(t, "copy", podWait, isReady)

	folder := t.TempDir()
	there, back := filepath.Join(folder, "there"), filepath.Join(folder, "back")
	text := strings.Repeat("what is copied\r\n", 10_000)
	if err := os.WriteFile(there, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "cp", there, "copy:/copied.txt")
	kubectl(t, "cp", "copy:/copied.txt", back)
	if got, err := os.ReadFile(back); err != nil || string(got) != text {
		t.Errorf("%d bytes came back, %v; want %d", len(got), err, len(text))
	}

	kubectl(t, "exec", "copy", "--", "cmd", "/c", `copy C:\copied.txt D:\data\moved.txt`)
	if out := kubectl(t, "exec", "copy", "--", "testapp", "ls", `D:\data`); !strings.Contains(out, "moved.txt") {
		t.Errorf(`D:\data holds %q`, out)
	}
}

// TestLocalStorageOfAContainer: what a Windows container writes into its own file system counts against its limit.
func TestLocalStorageOfAContainer(t *testing.T) {
	windowsPod(t, "writer", "[serve, --http, ':8080']", "", "    resources: {limits: {ephemeral-storage: 20Mi}}")
	waitPod(t, "writer", podWait, isReady)

	// The command may end with the pod.
	_, err := kubectlErr("exec", "writer", "--", "cmd", "/c",
		`for /l %i in (1,1,20) do copy C:\testapp.exe C:\copy%i.exe`)
	waitPod(t, "writer", podWait, func(p *v1.Pod) error {
		if p.Status.Reason != "Evicted" {
			return fmt.Errorf("the pod is %s %s; what wrote ended as %v", p.Status.Phase, p.Status.Reason, err)
		}
		return nil
	})
	waitEvent(t, "writer", "ephemeral local storage usage exceeds", "20Mi")
}

// TestHostPathFileThatGoes: a pod mounts a file of the node (hostPath of type File). The file is deleted, then the
// container ends. The container does not start again, nothing is made at the file's path, and an event names the path.
// When the file is there again, the container starts.
func TestHostPathFileThatGoes(t *testing.T) {
	onEach(t, func(t *testing.T, system string) {
		node := map[string]string{"linux": "lin01", "windows": "win01"}[system]
		folder := filepath.Join(dir, "hosts", node, "goes")
		said := folder + "/file"
		if system == "windows" {
			folder, said = filepath.Join(driveC(node), "goes"), `C:\goes\file`
		}
		file := filepath.Join(folder, "file")
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, []byte("here"), 0o644)); err != nil {
			t.Fatal(err)
		}

		name := "goes-" + system
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  volumes: [{name: file, hostPath: {path: '%s', type: File}}]
  containers:
  - name: app
    image: porthole/testapp:1
    args: [sleep, "10"]
    volumeMounts: [{name: file, mountPath: /file}]
`, name, node, said))
		waitPod(t, name, podWait, isReady)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}

		waitEvent(t, name, "hostPath type check failed", "goes")
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("something was made at %s", file)
		}
		if err := os.WriteFile(file, []byte("again"), 0o644); err != nil {
			t.Fatal(err)
		}
		waitPod(t, name, 2*podWait, func(p *v1.Pod) error {
			if err := isReady(p); err != nil {
				return err
			}
			if p.Status.ContainerStatuses[0].RestartCount == 0 {
				return errors.New("has not started again")
			}
			return nil
		})
	})
}
