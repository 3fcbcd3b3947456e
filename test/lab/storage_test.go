package lab

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	testimages "porthole.dev/porthole/test/images"
)

const labDriver = "lab.storage.porthole.dev"

// TestStorage: a storage driver that runs as a pod on a node of each system (on Windows as a HostProcess pod, with its
// socket on C:) registers, and serves a StatefulSet with claims, whose data outlives its pods and the pod of the
// driver. The test plays the driver's controller that attaches volumes.
// Rows 1.88, 1.93, 1.95.
func TestStorage(t *testing.T) {
	long(t)
	pushDriver(t)
	apply(t, `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: lab.storage.porthole.dev}
spec: {attachRequired: true, podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lab}
provisioner: lab.storage.porthole.dev
volumeBindingMode: WaitForFirstConsumer
`)
	for _, s := range []storageCase{
		{node: "lin01", data: "/data", app: "/testapp", driver: driverOnLinux(t, "lin01")},
		{node: "win01", data: `C:\data`, app: `C:\testapp.exe`, driver: driverOnWindows},
	} {
		t.Run(s.node, s.test)
	}
}

// storageCase is one node with the driver.
type storageCase struct {
	node, data, app string
	driver          string // the pod of the driver
}

func (s storageCase) test(t *testing.T) {
	apply(t, s.driver)
	wait.NoError(t, podWait, "the driver is in the CSINode", func() error {
		var n storagev1.CSINode
		object(t, &n, "csinode", s.node)
		if len(n.Spec.Drivers) != 1 || n.Spec.Drivers[0].Name != labDriver || n.Spec.Drivers[0].NodeID != s.node {
			out, _ := kubectlErr("get", "events", "--field-selector", "involvedObject.name=driver-"+s.node, "-o",
				"jsonpath={.items[*].message}")
			return fmt.Errorf("drivers %v, events %s", n.Spec.Drivers, out)
		}
		return nil
	})
	stop := attachAll(t)
	defer stop()
	apply(t, statefulSet(s.node, s.data))
	set := ordered{s}
	for i := range storePods {
		waitPod(t, set.name(i), podWait, isReady)
		kubectl(t, "exec", set.name(i), "--", s.app, "write", s.file(), set.name(i))
	}
	set.wantOrder(t)
	set.wantNames(t)
	kubectl(t, "delete", "pod", "-l", "app=store-"+s.node, "--wait=true")
	set.wantKept(t)
	set.wantNames(t)

	// The driver goes and comes back under the pods.
	kubectl(t, "delete", "pod", "driver-"+s.node, "--wait=true")
	set.wantKept(t)
	apply(t, s.driver)
	waitPod(t, "driver-"+s.node, podWait, isReady)
	kubectl(t, "delete", "pod", set.name(0), "--wait=true")
	set.wantKept(t)

	kubectl(t, "scale", "statefulset", "store-"+s.node, "--replicas=0")
	wait.NoError(t, podWait, "the volume is detached", func() error {
		var list storagev1.VolumeAttachmentList
		object(t, &list, "volumeattachments")
		var n v1.Node
		object(t, &n, "node", s.node)
		if len(list.Items)+len(n.Status.VolumesInUse)+len(n.Status.VolumesAttached) > 0 {
			return fmt.Errorf("%d attachments, in use %v, attached %v", len(list.Items), n.Status.VolumesInUse,
				n.Status.VolumesAttached)
		}
		return nil
	})
}

// file is a file in the volume of a pod.
func (s storageCase) file() string {
	if strings.HasPrefix(s.data, "/") {
		return s.data + "/file"
	}
	return s.data + `\file`
}

// pushDriver makes the driver's image for both systems, and pushes it to the cluster's registry.
func pushDriver(t *testing.T) {
	t.Helper()
	built := t.TempDir()
	for system, file := range map[string]string{"linux": "driver", "windows": "driver.exe"} {
		build := exec.Command("go", "build", "-o", filepath.Join(built, file), "../storage/driver")
		build.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0") // the image has no C library
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}

	windows := testimages.Variant{
		Layers: []string{"windows"}, Entrypoint: []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\driver.exe`},
	}
	push(t, layers{
		"linux":   func(l *testimages.Layer) error { return l.File("driver", filepath.Join(built, "driver"), 0o755) },
		"windows": func(l *testimages.Layer) error { return windowsLayer(l, filepath.Join(built, "driver.exe")) },
	}, testimages.Image{
		Repository: "porthole/storage-driver", Windows: &windows,
		Linux: &testimages.Variant{Layers: []string{"linux"}, Entrypoint: []string{"/driver"}, Dir: "/"},
	})
}

// layers fill the layers of images, by name.
type layers = map[string]func(*testimages.Layer) error

// push makes an image and pushes it to the cluster's registry with the tag 1.
func push(t *testing.T, parts layers, image testimages.Image) {
	t.Helper()
	_, registry := registryURL(t)
	image.Tags = []string{"1"}
	p := testimages.Pusher{Registry: registry, Client: &http.Client{Timeout: time.Minute}, Parts: parts}
	if err := p.PushAll(t.Context(), []testimages.Image{image}); err != nil {
		t.Fatal(err)
	}
}

// windowsLayer adds a program at the root of C: to a layer of a Windows image.
func windowsLayer(l *testimages.Layer, program string) error {
	l.Dir("Files", 0o755)
	l.Dir("Hives", 0o755)
	return l.File("Files/"+filepath.Base(program), program, 0o755)
}

// driverOnLinux is the driver's pod as such drivers are deployed: privileged, with the kubelet's folder mounted at its
// own path, so that mounts that it makes there are the node's.
func driverOnLinux(t *testing.T, node string) string {
	t.Helper()
	kubelet := filepath.Join(dir, "hosts", node, "kubelet")
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: driver-%[1]s}
spec:
  nodeName: %[1]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: driver
    image: porthole/storage-driver:1
    args: [--node=%[1]s, --make, --dir=/volumes, --socket=%[2]s/plugins/%[3]s/csi.sock, --registration=%[2]s/plugins_registry/%[3]s-reg.sock]
    securityContext: {privileged: true}
    volumeMounts:
    - {name: kubelet, mountPath: %[2]s, mountPropagation: Bidirectional}
    - {name: volumes, mountPath: /volumes}
  volumes:
  - {name: kubelet, hostPath: {path: %[2]s, type: Directory}}
  - {name: volumes, hostPath: {path: %[4]s, type: DirectoryOrCreate}}
`, node, kubelet, labDriver, filepath.Join(filepath.Dir(kubelet), "lab-volumes"))
}

// driverOnWindows is a HostProcess pod: it sees the node's C:, and makes links there.
var driverOnWindows = `
apiVersion: v1
kind: Pod
metadata: {name: driver-win01}
spec:
  nodeName: win01
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\SYSTEM'}}
  containers:
  - name: driver
    image: porthole/storage-driver:1
    command: ['C:\hpc\driver.exe']
    args:
    - --node=win01
    - --make
    - --dir=C:\lab-volumes
    - --socket=C:\var\lib\kubelet\plugins\` + labDriver + `\csi.sock
    - --registration=C:\var\lib\kubelet\plugins_registry\` + labDriver + `-reg.sock
`

// attachAll plays external-attacher until stop is called: what is to be attached is, and what is to be detached may go.
func attachAll(t *testing.T) (stop func()) {
	t.Helper()
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			out, err := kubectlErr("get", "volumeattachments", "-o",
				`jsonpath={range .items[?(@.status.attached!=true)]}{.metadata.name}{"\n"}{end}`)
			for _, name := range strings.Fields(out) {
				if err == nil {
					_, _ = kubectlErr("patch", "volumeattachment", name, "--subresource=status", "--type=merge", "-p",
						`{"status":{"attached":true}}`)
				}
			}
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(ended); <-done }
}
